import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { describe, test } from 'node:test'
import { systemClock } from '@tollway/chassis/clock.ts'
import { mapResult, type Result } from '../../domain/rejections.ts'
import { captureTransaction, refundTransaction, voidTransaction } from '../../domain/transaction/change.ts'
import { raiseDispute } from '../../domain/transaction/dispute.ts'
import { remainingAmount, type Transaction } from '../../domain/transaction/transaction.ts'
import { saveChange, saveDisputeChange } from '../changes.ts'
import type { AnswerRecord } from '../idempotency/answers.ts'
import { Idempotency } from '../idempotency/idempotency.ts'
import { requestFingerprint } from '../idempotency/sealed-answer.ts'
import type { Storage, Tx } from '../storage.ts'
import { findLedgerProblems } from '../tables/ledger.ts'
import {
  findTransaction,
  insertTransaction,
  listTransactions,
  lockTransaction,
} from '../tables/transactions.ts'
import { contextOf, openMerchant, someId, someTransaction } from './payments-under-test.ts'

const soak = process.env['SOAK'] === '1'
const histories = Number(process.env['HISTORIES'] ?? (soak ? 10_000 : 5))
const workers = Number(process.env['HISTORY_WORKERS'] ?? 50)

/** Registers tests of simultaneous operations on one transaction and one list in a migrated storage. */
export function concurrencyContract(
  name: string,
  open: () => Promise<Storage>,
  skip: string | false = false,
): void {
  describe(`concurrent work in ${name}`, { skip }, () => {
    test(`${histories} histories of ${workers} workers keep the amounts of a transaction right`, async () => {
      const storage = await open()
      for (let history = 0; history < histories; history += 1) await runHistory(storage)
      const problems = await storage.transaction(tx => findLedgerProblems(tx, 10), {
        isolation: 'repeatable read',
      })
      assert.deepEqual(problems, [])
    })

    test('paging through a list that grows misses nothing and repeats nothing', async () => {
      await walkWhileGrowing(await open())
    })
  })
}

const total = 1_000n
const guard = { currency: null, descriptor: null }
const operations = ['capture', 'refund', 'void', 'dispute'] as const

/** Each worker makes one random operation, some of them twice with the same key, as clients do. */
async function runHistory(storage: Storage): Promise<void> {
  const { merchant } = await openMerchant(storage)
  const start = someTransaction(merchant, total)
  await storage.transaction(tx => insertTransaction(tx, start))
  const context = contextOf(merchant)
  const once = new Idempotency({ storage, clock: systemClock, random: Math.random, randomBytes })
  const done = { capture: 0n, refund: 0n, void: 0n, dispute: 0n }

  async function operate(
    tx: Tx,
    operation: (typeof operations)[number],
    amount: bigint,
  ): Promise<Result<AnswerRecord>> {
    const now = await lockTransaction(tx, start.id)
    assert.ok(now)
    assertBuckets(now)
    if (operation === 'dispute') {
      const raised = raiseDispute(now, { amount, reason: null, dueMs: null, earlier: [] }, context)
      if (raised.ok) await saveDisputeChange(tx, raised.value)
      return mapResult(raised, () => answer)
    }
    const change =
      operation === 'void'
        ? voidTransaction(now, { currency: null, amount }, context)
        : { capture: captureTransaction, refund: refundTransaction }[operation](
            now,
            { ...guard, amount },
            context,
          )
    if (change.ok) saveChange(tx, change.value)
    return mapResult(change, () => answer)
  }

  async function work(): Promise<void> {
    const operation = operations[Math.floor(Math.random() * operations.length)] ?? 'capture'
    const amount = BigInt(1 + Math.floor(Math.random() * 120))
    const key = someId()
    const request = { scope: merchant.id, key, fingerprint: requestFingerprint(key, [operation]) }
    const calls = Math.random() < 0.2 ? 2 : 1
    const outcomes = await Promise.all(
      Array.from({ length: calls }, () => once.runOnce(request, tx => operate(tx, operation, amount))),
    )
    const effects = outcomes.filter(
      outcome => outcome.ok && outcome.value.kind === 'answered' && !outcome.value.replayed,
    )
    assert.ok(effects.length <= 1, 'one key had two effects')
    if (effects.length === 1) done[operation] += amount
  }

  await Promise.all(Array.from({ length: workers }, work))
  const end = await storage.transaction(tx => findTransaction(tx, start.id))
  assert.ok(end)
  assertBuckets(end)
  assert.deepEqual(
    {
      capture: end.capturedAmount,
      refund: end.refundedAmount,
      void: end.voidedAmount,
      dispute: end.disputedAmount,
    },
    done,
  )
}

const answer: AnswerRecord = { status: 201, body: '{}' }

function assertBuckets(now: Transaction): void {
  assert.equal(now.pendingAmount + now.capturedAmount + now.voidedAmount, now.amount)
  assert.ok(remainingAmount(now) >= 0n)
  const captures = now.trail.filter(entry => entry.kind === 'capture').map(entry => entry.amount)
  assert.equal(
    captures.reduce((sum, amount) => sum + amount, 0n),
    now.capturedAmount,
    'the trail that was read is older than the amounts',
  )
}

const writers = 8
const each = 15

async function walkWhileGrowing(storage: Storage): Promise<void> {
  const { merchant } = await openMerchant(storage)
  const first = someTransaction(merchant)
  await storage.transaction(tx => insertTransaction(tx, first))
  let writing = true
  const write = async () => {
    for (let count = 0; count < each; count += 1) {
      await storage.transaction(tx => insertTransaction(tx, someTransaction(merchant)))
    }
  }
  const written = Promise.all(Array.from({ length: writers }, write)).then(() => {
    writing = false
  })
  const page = (query: Parameters<typeof listTransactions>[2]) =>
    storage.transaction(async tx => {
      const found = await listTransactions(tx, merchant.id, query)
      assert.ok('items' in found)
      return found.items.map(item => item.id)
    })

  const forwards = [first.id]
  for (let last = false; ; ) {
    const ids = await page({ limit: 7, after: forwards.at(-1) ?? '' })
    forwards.push(...ids)
    if (ids.length === 0 && last) break
    last = !writing
  }
  await written
  const backwards = await page({ limit: 7 })
  for (;;) {
    const ids = await page({ limit: 7, before: backwards.at(-1) ?? '' })
    if (ids.length === 0) break
    backwards.push(...ids)
  }
  assert.equal(new Set(forwards).size, 1 + writers * each)
  assert.deepEqual(forwards, backwards.toReversed())
}
