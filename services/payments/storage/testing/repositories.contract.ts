import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { describe, test } from 'node:test'
import { inspect } from 'node:util'
import { payOut } from '../../domain/ledger/payout.ts'
import type { Result } from '../../domain/rejections.ts'
import { captureTransaction, refundTransaction, voidTransaction } from '../../domain/transaction/change.ts'
import { type Dispute, raiseDispute, resolveDispute } from '../../domain/transaction/dispute.ts'
import type { Transaction } from '../../domain/transaction/transaction.ts'
import { saveChange, saveDisputeChange, savePayout } from '../changes.ts'
import { claimDueMails, insertMail, markMailSent, postponeMail } from '../delivery/mails.ts'
import type { ListPage } from '../list-page.ts'
import type { Storage, Tx } from '../storage.ts'
import { expireAppKeys, findApp, findAppByKeyHash, insertApp, insertAppKey } from '../tables/apps.ts'
import { findCard, insertCard } from '../tables/cards.ts'
import { findDispute, listDisputes } from '../tables/disputes.ts'
import { findFraud, insertFraud, listFrauds } from '../tables/frauds.ts'
import { accountBalances, entriesOfLines, findLedgerProblems, readBalance } from '../tables/ledger.ts'
import { findLine, listLines } from '../tables/lines.ts'
import {
  addMerchantApp,
  addMerchantUser,
  findOrInsertUser,
  listMerchantApps,
  listMerchantUsers,
  removeMerchantApp,
  removeMerchantUser,
} from '../tables/memberships.ts'
import {
  findMerchant,
  findMerchantByKey,
  findMerchantByProvisionUid,
  insertMerchant,
  lockMerchant,
  updateMerchant,
} from '../tables/merchants.ts'
import {
  findTransaction,
  insertTransaction,
  listExpiredTransactions,
  listTransactions,
  lockTransaction,
} from '../tables/transactions.ts'
import {
  contextOf,
  nowMs,
  openMerchant,
  someApp,
  someId,
  someMerchant,
  someTransaction,
} from './payments-under-test.ts'

/** Registers the tests of the functions that read and write tables. The storage must be migrated. */
export function repositoriesContract(
  name: string,
  open: () => Promise<Storage>,
  skip: string | false = false,
): void {
  describe(`payments in ${name}`, { skip }, () => {
    let opened: Promise<Storage> | undefined
    for (const [rule, run] of Object.entries({
      ...partyRules,
      ...moneyRules,
      ...rejectionRules,
      ...deliveryRules,
    })) {
      test(rule, async () => {
        opened ??= open()
        await run(await opened)
      })
    }
  })
}

type Rule = (storage: Storage) => Promise<void>

function itemsOf<Item>(page: ListPage<Item>): readonly Item[] {
  assert.ok('items' in page, inspect(page))
  return page.items
}

function idsOf(page: ListPage<{ readonly id: string }>): readonly string[] {
  return itemsOf(page).map(item => item.id)
}

/** A page that is large enough for all elements of a test. */
const all = { limit: 100 }

const partyRules: Record<string, Rule> = {
  'an app is found by its keys until they expire': async storage => {
    const app = someApp()
    const [first = '', second = ''] = ['a', 'b'].map(text =>
      createHash('sha256').update(`${text} ${app.id}`).digest('hex'),
    )
    await storage.transaction(async tx => {
      await insertApp(tx, app)
      await insertAppKey(tx, { appId: app.id, hash: first, createdMs: nowMs, expiresMs: null })
      await insertAppKey(tx, { appId: app.id, hash: second, createdMs: nowMs, expiresMs: nowMs + 9_000 })
      await expireAppKeys(tx, app.id, nowMs + 5_000, second)
    })
    const opened = (hash: string, atMs: number) => storage.transaction(tx => findAppByKeyHash(tx, hash, atMs))
    assert.deepEqual(await opened(first, nowMs + 4_999), app)
    assert.equal(await opened(first, nowMs + 5_000), undefined)
    assert.deepEqual(await opened(second, nowMs + 5_000), app)
    assert.equal(await opened(second, nowMs + 9_000), undefined)
    const sameStart = first.slice(0, 16) + second.slice(16)
    assert.equal(await opened(sameStart, nowMs), undefined)
    assert.deepEqual(await storage.transaction(tx => findApp(tx, app.id)), app)
  },

  'a merchant is read as it was stored, and only some of its fields change': async storage => {
    const { merchant } = await openMerchant(storage)
    const changed = {
      ...merchant,
      name: 'Shop',
      email: 'new@example.org',
      descriptor: '',
      closedMs: nowMs + 1,
    }
    await storage.transaction(async tx => {
      assert.deepEqual(await findMerchant(tx, merchant.id), merchant)
      assert.deepEqual(await lockMerchant(tx, merchant.id), merchant)
      await updateMerchant(tx, { ...changed, currency: 'EUR', website: 'https://example.com' })
      assert.deepEqual(await findMerchantByKey(tx, merchant.key), changed)
      assert.equal(await findMerchant(tx, someId()), undefined)
    })
  },

  'a resource has one merchant': async storage => {
    const uid = someId()
    const [first, second] = [someMerchant(), someMerchant()]
    const insert = (merchant: typeof first) => storage.transaction(tx => insertMerchant(tx, merchant, uid))
    const inserted = await Promise.all([insert(first), insert(second)])
    assert.deepEqual(inserted.toSorted(), [false, true])
    const kept = inserted[0] ? first : second
    assert.deepEqual(await storage.transaction(tx => findMerchantByProvisionUid(tx, uid)), kept)
  },

  'apps and users have merchants': async storage => {
    const { merchant, app } = await openMerchant(storage)
    const books = someApp()
    const person = { id: someId(), email: `Eve.${merchant.id}@example.org`, createdMs: nowMs }
    await storage.transaction(async tx => {
      await insertApp(tx, books)
      assert.equal(await addMerchantApp(tx, merchant.id, books.id), true)
      assert.equal(await addMerchantApp(tx, merchant.id, books.id), false)
      assert.deepEqual(idsOf(await listMerchantApps(tx, merchant.id, all)), [books.id, app.id])
      assert.equal(await removeMerchantApp(tx, merchant.id, books.id), true)
      assert.equal(await removeMerchantApp(tx, merchant.id, books.id), false)

      assert.deepEqual(await findOrInsertUser(tx, person), { user: person, isNew: true })
      const again = { ...person, id: someId(), email: person.email.toUpperCase() }
      assert.deepEqual(await findOrInsertUser(tx, again), { user: person, isNew: false })
      const member = { ...again, createdMs: nowMs + 1 }
      const other = { ...member, id: someId() }
      assert.deepEqual(await addMerchantUser(tx, merchant.id, person.id, member), { member, isNew: true })
      assert.deepEqual(await addMerchantUser(tx, merchant.id, person.id, other), { member, isNew: false })
      assert.deepEqual(itemsOf(await listMerchantUsers(tx, merchant.id, all)), [member])
      assert.equal(await removeMerchantUser(tx, merchant.id, person.id), false)
      assert.equal(await removeMerchantUser(tx, merchant.id, member.id), true)
    })
  },

  'a list is read in both directions': async storage => {
    const { merchant } = await openMerchant(storage)
    const stored = Array.from({ length: 7 }, () => someTransaction(merchant))
    for (const one of stored) await storage.transaction(tx => insertTransaction(tx, one))
    const [a = '', b = '', c = '', d = '', e = '', f = '', g = ''] = stored.map(one => one.id)
    const table: readonly [string, Parameters<typeof listTransactions>[2], readonly string[]][] = [
      ['the newest first', { limit: 3 }, [g, f, e]],
      ['then the older ones', { limit: 3, before: e }, [d, c, b]],
      ['to the end', { limit: 3, before: b }, [a]],
      ['the newer ones, in the opposite order', { limit: 2, after: e }, [f, g]],
      ['nothing newer', { limit: 2, after: g }, []],
      ['the ones between two cursors', { limit: 9, after: a, before: d }, [b, c]],
      ['the order as asked', { limit: 2, order: 'oldest' }, [a, b]],
      ['the order as asked, with a cursor', { limit: 2, after: a, order: 'newest' }, [g, f]],
    ]
    await storage.transaction(async tx => {
      for (const [what, page, ids] of table) {
        assert.deepEqual(idsOf(await listTransactions(tx, merchant.id, page)), ids, what)
      }
      const unknown = await listTransactions(tx, merchant.id, { limit: 1, before: someId() })
      assert.deepEqual(unknown, { unknownCursor: 'before' })
    })
    const stranger = (await openMerchant(storage)).merchant.id
    const foreign = await storage.transaction(tx => listTransactions(tx, stranger, { limit: 1, after: a }))
    assert.deepEqual(foreign, { unknownCursor: 'after' })
  },
}

function unrejected<T extends object>(change: Result<T>): T {
  assert.ok(change.ok, inspect(change))
  return change.value
}

const guard = { currency: null, descriptor: null }

const moneyRules: Record<string, Rule> = {
  'a transaction is read as it was stored': async storage => {
    const { merchant } = await openMerchant(storage)
    const stored: Transaction = {
      ...someTransaction(merchant),
      ...{
        custom: null,
        tds: null,
        recurring: true,
        error: 7,
        processorReference: null,
        reference: 'order 1',
      },
      pendingAmount: 0n,
      voidedAmount: 1_000n,
    }
    await storage.transaction(tx => insertTransaction(tx, stored))
    const plain = someTransaction(merchant, 9_007_199_254_740_991n)
    await storage.transaction(tx => insertTransaction(tx, plain))
    await storage.transaction(async tx => {
      assert.deepEqual(await findTransaction(tx, stored.id), stored)
      assert.deepEqual(await lockTransaction(tx, plain.id), plain)
      assert.equal(await lockTransaction(tx, someId()), undefined)
    })
  },

  'captures, refunds, voids, disputes and payouts are read as they were stored': async storage => {
    const { merchant } = await openMerchant(storage)
    const start = someTransaction(merchant)
    const context = contextOf(merchant)
    await storage.transaction(tx => insertTransaction(tx, start))
    const change = (step: (now: Transaction, tx: Tx) => Promise<void>) =>
      storage.transaction(async tx => {
        const now = await lockTransaction(tx, start.id)
        assert.ok(now)
        await step(now, tx)
      })
    await change(async (now, tx) =>
      saveChange(tx, unrejected(captureTransaction(now, { ...guard, amount: 700n }, context))),
    )
    await change(async (now, tx) =>
      saveChange(tx, unrejected(refundTransaction(now, { ...guard, amount: 50n }, context))),
    )
    await change(async (now, tx) =>
      saveChange(tx, unrejected(voidTransaction(now, { currency: null, amount: 300n }, context))),
    )
    const disputes: Dispute[] = []
    for (const amount of [100n, 200n]) {
      await change(async (now, tx) => {
        const raised = unrejected(
          raiseDispute(now, { amount, reason: 'fraud', dueMs: nowMs + 1, earlier: [] }, context),
        )
        await saveDisputeChange(tx, raised)
        disputes.push(raised.dispute)
      })
    }
    for (const [index, outcome] of (['won', 'lost'] as const).entries()) {
      await change(async (now, tx) => {
        const dispute = await findDispute(tx, disputes[index]?.id ?? '')
        assert.deepEqual(dispute, disputes[index])
        await saveDisputeChange(
          tx,
          unrejected(resolveDispute(now, disputes[index] as Dispute, outcome, context)),
        )
      })
    }
    await storage.transaction(async tx => {
      const locked = await lockMerchant(tx, merchant.id)
      assert.ok(locked)
      const balance = await readBalance(tx, merchant.id, merchant.currency)
      savePayout(tx, unrejected(payOut(balance, balance - 5n, { ...context, merchant: locked })))
    })
    await storage.transaction(tx => assertBooks(tx, merchant.id, start.id), { isolation: 'repeatable read' })
  },

  'cards and fraud alerts are stored and listed': async storage => {
    const { merchant } = await openMerchant(storage)
    const transaction = someTransaction(merchant)
    const { card, cardReference } = transaction
    const mine = { merchantId: merchant.id, createdMs: nowMs }
    const saved = { id: someId(), ...mine, card, reference: cardReference, notes: 'ours' }
    const fraud = { id: someId(), ...mine, transactionId: transaction.id, reportedMs: nowMs, reason: 6 }
    const vague = { ...fraud, id: someId(), reportedMs: null, reason: null }
    await storage.transaction(async tx => {
      await insertTransaction(tx, transaction)
      await insertCard(tx, saved)
      await insertFraud(tx, fraud)
      await insertFraud(tx, vague)
      assert.deepEqual(await findCard(tx, saved.id), saved)
      assert.deepEqual(await findFraud(tx, vague.id), vague)
      const { id: transactionId } = transaction
      assert.deepEqual(itemsOf(await listFrauds(tx, merchant.id, all, { transactionId })), [vague, fraud])
      assert.deepEqual(itemsOf(await listFrauds(tx, merchant.id, all, { transactionId: someId() })), [])
    })
  },

  'expired authorisations are found': async storage => {
    const { merchant } = await openMerchant(storage)
    const old = { ...someTransaction(merchant), expiresMs: nowMs - 1_000 }
    await storage.transaction(tx => insertTransaction(tx, old))
    await storage.transaction(tx => insertTransaction(tx, someTransaction(merchant)))
    const found = await storage.transaction(tx => listExpiredTransactions(tx, nowMs, 1_000))
    assert.deepEqual(found, [old.id])
    const undone = new Error('rolled back')
    const release = async (tx: Tx) => {
      // Updates like a process of the previous version, which does not write `has_pending`.
      await tx.query('UPDATE transactions SET pending_amount = 0, voided_amount = amount WHERE id = $1', [
        old.id,
      ])
      assert.deepEqual(await listExpiredTransactions(tx, nowMs, 1_000), [])
      throw undone
    }
    await assert.rejects(storage.transaction(release), undone)
  },

  'a partial capture changes the transaction without new entries in its indexes': async storage => {
    const { merchant } = await openMerchant(storage)
    const transaction = someTransaction(merchant)
    await storage.transaction(tx => insertTransaction(tx, transaction))
    const part = unrejected(captureTransaction(transaction, { ...guard, amount: 1n }, contextOf(merchant)))
    const countUpdates = `SELECT n_tup_upd AS all, n_tup_hot_upd AS in_place FROM pg_stat_xact_user_tables
      WHERE relname = 'transactions'`
    await storage.transaction(async tx => {
      const [before] = await tx.query<Record<'all' | 'in_place', bigint>>(countUpdates)
      assert.ok(before)
      saveChange(tx, part)
      const after = { all: before.all + 1n, in_place: before.in_place + 1n }
      assert.deepEqual(await tx.query(countUpdates), [after])
    })
  },
}

async function assertBooks(tx: Tx, merchantId: string, transactionId: string): Promise<void> {
  const now = await findTransaction(tx, transactionId)
  const kinds = now?.trail.map(entry => entry.dispute?.outcome ?? entry.kind)
  assert.deepEqual(kinds, ['capture', 'refund', 'void', 'won', 'lost'])
  assert.deepEqual(await lockTransaction(tx, transactionId), now)
  assert.deepEqual(itemsOf(await listTransactions(tx, merchantId, all)), [now])

  const lines = itemsOf(await listLines(tx, merchantId, all))
  assert.deepEqual(
    lines.map(line => line.kind),
    ['payout', 'dispute-won', 'dispute', 'dispute', 'refund', 'capture'],
  )
  assert.deepEqual(await findLine(tx, lines[4]?.id ?? ''), lines[4])
  assert.equal(await readBalance(tx, merchantId, 'DKK'), 5n)
  assert.equal(
    lines.reduce((sum, line) => sum + line.balance, 0n),
    5n,
  )
  assert.equal(
    itemsOf(await listLines(tx, merchantId, all, { transactionId, fromMs: null, toMs: null })).length,
    5,
  )
  const statuses = itemsOf(await listDisputes(tx, merchantId, all)).map(dispute => dispute.status)
  assert.deepEqual(statuses, ['lost', 'won'])
  assert.equal(itemsOf(await listDisputes(tx, merchantId, all, { status: 'open' })).length, 0)

  const entries = await entriesOfLines(
    tx,
    lines.map(({ id }) => id),
  )
  assert.equal(entries.length, 6)
  const sums = new Map<string, bigint>()
  for (const { currency, amount } of await accountBalances(tx, merchantId)) {
    sums.set(currency, (sums.get(currency) ?? 0n) + amount)
  }
  assert.deepEqual([...sums.values()], [0n, 0n])
  assert.deepEqual(await findLedgerProblems(tx, 10), [])
}

/** Constraints, each with a statement that violates it; `$1` is the id of a transaction. */
const rejected: readonly (readonly [constraint: string, sql: string])[] = [
  ['transactions_buckets', 'UPDATE transactions SET captured_amount = 1 WHERE id = $1'],
  [
    'transactions_pending',
    'UPDATE transactions SET pending_amount = -1, captured_amount = amount + 1 WHERE id = $1',
  ],
  ['transactions_refundable', 'UPDATE transactions SET refunded_amount = 1 WHERE id = $1'],
  ['transactions_immutable', 'UPDATE transactions SET amount = 2 * amount WHERE id = $1'],
  ['transactions_append_only', 'DELETE FROM transactions WHERE id = $1'],
  [
    'trail_entries_amount',
    `INSERT INTO trail_entries SELECT t.id, 0, gen_random_uuid(), 'void', NULL, NULL, now(), 0, 0, 0, 0, '', NULL
     FROM transactions t WHERE t.id = $1`,
  ],
  ['trail_entries_append_only', 'UPDATE trail_entries SET amount = 1 WHERE transaction_id = $1'],
  ['lines_append_only', 'DELETE FROM lines WHERE transaction_id = $1'],
  ['ledger_entries_append_only', 'DELETE FROM ledger_entries WHERE transaction_id = $1'],
  [
    'ledger_postings_append_only',
    'UPDATE ledger_postings SET amount = 1 FROM ledger_entries e WHERE e.id = entry_id AND e.transaction_id = $1',
  ],
  [
    'lines_transaction',
    `INSERT INTO lines SELECT gen_random_uuid(), m.id, true, now(), 99, 'capture', 1, 0, 0, '', $1::uuid, 1, 'EUR'
     FROM merchants m JOIN transactions t ON t.id = $1 AND m.id <> t.merchant_id AND m.test LIMIT 1`,
  ],
  [
    'currency_code_letters',
    `INSERT INTO lines SELECT gen_random_uuid(), t.merchant_id, true, now(), 99, 'capture', 1, 0, 0, '', t.id, 1, 'eur'
     FROM transactions t WHERE t.id = $1`,
  ],
  [
    'lines_merchant',
    `INSERT INTO lines SELECT gen_random_uuid(), t.merchant_id, false, now(), 99, 'capture', 1, 0, 0, '', t.id, 1, 'EUR'
     FROM transactions t WHERE t.id = $1`,
  ],
  [
    'ledger_entries_posted',
    `INSERT INTO ledger_entries SELECT gen_random_uuid(), t.merchant_id, true, now(), 'capture', t.id
     FROM transactions t WHERE t.id = $1`,
  ],
  [
    'ledger_postings_zero',
    `WITH e AS (INSERT INTO ledger_entries SELECT gen_random_uuid(), t.merchant_id, true, now(), 'capture', t.id
       FROM transactions t WHERE t.id = $1 RETURNING id, merchant_id)
     INSERT INTO ledger_postings SELECT e.id, v.n, e.merchant_id, 'clearing', v.currency, v.amount
     FROM e, (VALUES (1, 'EUR', 5), (2, 'DKK', -5)) AS v (n, currency, amount)`,
  ],
]

const rejectionRules: Record<string, Rule> = {
  'the database rejects inconsistent rows': async storage => {
    const { merchant } = await openMerchant(storage)
    await openMerchant(storage)
    const transaction = someTransaction(merchant)
    await storage.transaction(tx => insertTransaction(tx, transaction))
    for (const [constraint, sql] of rejected) {
      const breaking = storage.transaction(tx => tx.query(sql, [transaction.id]))
      await assert.rejects(breaking, { code: 'constraint', constraint }, constraint)
    }
    await assert.rejects(
      storage.transaction(tx => tx.script('TRUNCATE ledger_postings')),
      { code: 'constraint', constraint: 'ledger_postings_append_only' },
    )
    const otherMode = { ...someTransaction(merchant), test: false }
    await assert.rejects(
      storage.transaction(tx => insertTransaction(tx, otherMode)),
      { constraint: 'transactions_merchant' },
    )
  },

  'an append to a trail that has grown meanwhile is rejected': async storage => {
    const { merchant } = await openMerchant(storage)
    const transaction = someTransaction(merchant)
    await storage.transaction(tx => insertTransaction(tx, transaction))
    const stale = unrejected(captureTransaction(transaction, { ...guard, amount: 1n }, contextOf(merchant)))
    await storage.transaction(async tx => saveChange(tx, stale))
    const again = unrejected(captureTransaction(transaction, { ...guard, amount: 1n }, contextOf(merchant)))
    await assert.rejects(
      storage.transaction(async tx => saveChange(tx, again)),
      { constraint: 'trail_entries_order' },
    )
  },
}

const leaseMs = 60_000

const deliveryRules: Record<string, Rule> = {
  'mail is due until it is sent': async storage => {
    const mail = {
      id: someId(),
      createdMs: nowMs,
      template: 'invitation',
      recipient: 'eve@example.org',
      content: { shop: 'ø' },
    }
    await storage.transaction(tx => insertMail(tx, mail))
    const claim = (atMs: number) => storage.transaction(tx => claimDueMails(tx, atMs, atMs + leaseMs, 10))
    assert.deepEqual(await claim(nowMs), [{ ...mail, attempts: 1 }])
    assert.deepEqual(await claim(nowMs + leaseMs - 1), [])
    assert.equal((await claim(nowMs + leaseMs))[0]?.attempts, 2)
    await storage.transaction(tx => postponeMail(tx, mail.id, nowMs + 5 * leaseMs))
    assert.deepEqual(await claim(nowMs + 5 * leaseMs - 1), [])
    await storage.transaction(tx => markMailSent(tx, mail.id, nowMs))
    assert.deepEqual(await claim(nowMs + 9 * leaseMs), [])
  },
}
