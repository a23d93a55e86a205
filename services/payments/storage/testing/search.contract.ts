import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import type { ProcessingErrorCode } from '../../domain/transaction/processing-errors.ts'
import {
  type Transaction,
  type TransactionSearch,
  transactionStatuses,
} from '../../domain/transaction/transaction.ts'
import type { PageQuery } from '../list-page.ts'
import { onlyRow, type Storage } from '../storage.ts'
import { insertTransaction, listTransactions } from '../tables/transactions.ts'
import { firstFrom, lastUntil, timedLists } from '../time-cursors.ts'
import { nowMs, openMerchant, someTransaction } from './payments-under-test.ts'

const runs = Number(process.env['FC_RUNS'] ?? 100)

const nothing: TransactionSearch = { reference: null, custom: null, status: null, fromMs: null, toMs: null }

/** Texts with a special meaning in SQL, LIKE, JSON or spreadsheets. */
const texts = ['A-17', 'a-17', "'; --", '%', '=1+1', 'ø', '1', 'true', '{"a":1}']

const change = fc.record({
  reference: fc.option(fc.constantFrom(...texts)),
  custom: fc.option(
    fc.dictionary(
      fc.constantFrom('order', "o'r", '%', '1'),
      fc.oneof(fc.constantFrom(...texts), fc.constantFrom(1, true)),
    ),
  ),
  ageMs: fc.integer({ min: 0, max: 5 }),
  state: fc.constantFrom<Partial<Transaction>>(
    {},
    { pendingAmount: 400n, capturedAmount: 600n },
    { pendingAmount: 0n, capturedAmount: 1_000n, refundedAmount: 100n },
    { pendingAmount: 0n, capturedAmount: 1_000n, disputedAmount: 100n },
    { pendingAmount: 300n, voidedAmount: 700n },
    { pendingAmount: 0n, voidedAmount: 1_000n, error: 7 satisfies ProcessingErrorCode },
  ),
})

const search: fc.Arbitrary<TransactionSearch> = fc.record({
  reference: fc.option(fc.constantFrom(...texts)),
  custom: fc.option(
    fc.dictionary(fc.constantFrom('order', "o'r", '%', '1'), fc.constantFrom(...texts), { maxKeys: 2 }),
  ),
  status: fc.option(fc.constantFrom(...transactionStatuses)),
  fromMs: fc.option(fc.integer({ min: nowMs - 6, max: nowMs + 1 })),
  toMs: fc.option(fc.integer({ min: nowMs - 6, max: nowMs + 1 })),
})

/** Returns whether a transaction matches the search. The tests compare the result with the database. */
function isFound(transaction: Transaction, { reference, custom, status, fromMs, toMs }: TransactionSearch) {
  const { pendingAmount, capturedAmount, refundedAmount, voidedAmount, disputedAmount } = transaction
  const isDeclined = transaction.error !== null
  const statuses = {
    pending: pendingAmount > 0n,
    captured: capturedAmount > 0n,
    refunded: refundedAmount > 0n,
    voided: voidedAmount > 0n && !isDeclined,
    disputed: disputedAmount > 0n,
    declined: isDeclined,
  }
  return (
    (reference === null || transaction.reference === reference) &&
    (status === null || statuses[status]) &&
    (fromMs === null || transaction.createdMs >= fromMs) &&
    (toMs === null || transaction.createdMs < toMs) &&
    Object.entries(custom ?? {}).every(([name, value]) => {
      const own = transaction.custom ?? {}
      return Object.hasOwn(own, name) && String(own[name]) === value
    })
  )
}

/** Resolves with the elements of all pages of a search in one direction, requested as a caller does. */
async function walk(
  storage: Storage,
  merchantId: string,
  wanted: TransactionSearch,
  { cursor, limit }: { readonly cursor: 'before' | 'after'; readonly limit: number },
): Promise<readonly string[]> {
  const ids: string[] = []
  for (;;) {
    const last = ids.at(-1)
    const order = cursor === 'after' ? 'oldest' : 'newest'
    const page: PageQuery = { limit, order, ...(last === undefined ? {} : { [cursor]: last }) }
    const found = await storage.read(tx => listTransactions(tx, merchantId, page, wanted))
    assert.ok('items' in found)
    ids.push(...found.items.map(({ id }) => id))
    if (found.items.length < limit) return ids
  }
}

/** Registers the tests of searches for transactions. The storage must be migrated. */
export function searchContract(name: string, open: () => Promise<Storage>): void {
  test(`${name}: a search finds exactly the matching records, once, in both directions`, async () => {
    const storage = await open()
    const changes = fc.sample(change, { numRuns: 60, seed: 7 })
    const { merchant } = await openMerchant(storage)
    const stranger = (await openMerchant(storage)).merchant
    const all: Transaction[] = []
    for (const { ageMs, state, ...own } of changes) {
      const transaction = { ...someTransaction(merchant), ...state, ...own, createdMs: nowMs - ageMs }
      all.push(transaction)
      await storage.transaction(tx => insertTransaction(tx, transaction))
      await storage.transaction(tx => insertTransaction(tx, { ...someTransaction(stranger), ...own }))
    }
    const byCreation = (one: Transaction, other: Transaction) =>
      one.createdMs - other.createdMs || (one.id < other.id ? -1 : 1)
    const property = fc.asyncProperty(search, fc.integer({ min: 1, max: 20 }), async (wanted, limit) => {
      const found = all.filter(transaction => isFound(transaction, wanted))
      const oldestFirst = (wanted.fromMs === null ? found : found.toSorted(byCreation)).map(({ id }) => id)
      assert.deepEqual(await walk(storage, merchant.id, wanted, { cursor: 'after', limit }), oldestFirst)
      const newestFirst = await walk(storage, merchant.id, wanted, { cursor: 'before', limit })
      assert.deepEqual(newestFirst, oldestFirst.toReversed())
    })
    await fc.assert(property, { numRuns: runs })
  })

  test(`${name}: a search by reference or by time reads an index, also from a cursor`, async () => {
    const storage = await open()
    const { merchant } = await openMerchant(storage)
    const transaction = someTransaction(merchant)
    await storage.transaction(tx => insertTransaction(tx, transaction))
    const planOf = (wanted: TransactionSearch) =>
      storage.transaction(async tx => {
        // Without these settings, the planner reads small tables as a whole, even if an index fits.
        await tx.script(
          'SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off; SET LOCAL enable_sort = off',
        )
        let plan = ''
        const explaining = {
          ...tx,
          query: async <Row>(sql: string, params?: Parameters<typeof tx.query>[1]) => {
            if (!sql.includes('LIMIT')) return tx.query<Row>(sql, params)
            const rows = await tx.query<{ 'QUERY PLAN': string }>(`EXPLAIN ${sql}`, params)
            plan = rows.map(row => row['QUERY PLAN']).join('\n')
            return []
          },
        }
        await listTransactions(explaining, merchant.id, { limit: 10, before: transaction.id }, wanted)
        return plan
      })
    const byTime = await planOf({ ...nothing, fromMs: nowMs - 1, toMs: nowMs + 1 })
    assert.match(byTime, /transactions_created.*\n\s+Index Cond: .*ROW\(created, id\) </, byTime)
    const byReference = await planOf({ ...nothing, reference: 'A-17' })
    assert.match(
      byReference,
      /transactions_reference.*\n\s+Index Cond: .*reference =.*position"? </,
      byReference,
    )
  })

  test(`${name}: an element is found by its time without a scan of the list`, async () =>
    findsTimesByIndex(await open()))
}

const copies = 2_000

/** Inserts `$2` copies of the transaction `$1`, each one second older than the one before. */
const copyTransaction = `INSERT INTO transactions SELECT (json_populate_record(t, json_build_object(
    'id', gen_random_uuid(), 'position', -n, 'created', t.created - n * interval '1 s'))).*
  FROM transactions t, generate_series(1, $2::int) n WHERE t.id = $1`

const fetched = `SELECT idx_tup_fetch + seq_tup_read AS rows FROM pg_stat_xact_user_tables
  WHERE relname = 'transactions'`

async function findsTimesByIndex(storage: Storage): Promise<void> {
  const { merchant } = await openMerchant(storage)
  const transaction = someTransaction(merchant)
  await storage.transaction(tx => insertTransaction(tx, transaction))
  await storage.transaction(async tx => {
    await tx.query(copyTransaction, [transaction.id, copies])
    await tx.script('ANALYZE transactions')
  })
  // The planner knows that half of the list meets the condition, but not that the scan by position begins
  // with the other half.
  const middleMs = transaction.createdMs - (copies / 2) * 1_000
  await storage.transaction(async tx => {
    const rowsOf = async () => onlyRow(await tx.query<{ rows: bigint }>(fetched)).rows
    const before = await rowsOf()
    const last = await lastUntil(tx, timedLists.transactions, merchant.id, middleMs)
    assert.ok(last)
    assert.equal(await firstFrom(tx, timedLists.transactions, merchant.id, middleMs), last)
    const read = Number((await rowsOf()) - before)
    assert.ok(read < 100, `${read} rows were read`)
  })
}
