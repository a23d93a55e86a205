import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { systemClock } from '@tollway/chassis/clock.ts'
import {
  missingPostgres,
  type PostgresServer,
  startPostgres,
} from '../../../../test/support/postgres-server.ts'
import { claimDueMails } from '../delivery/mails.ts'
import { claimWaitingEvents, listOpenExceptions } from '../delivery/processor-exceptions.ts'
import { claimDueInstructions, findTransactionId } from '../delivery/processor-instructions.ts'
import { claimDueDeliveries } from '../delivery/webhook-deliveries.ts'
import { listWebhookEvents } from '../delivery/webhooks.ts'
import { removeExpiredKeys } from '../idempotency/idempotency-keys.ts'
import { prunables, prune } from '../pruning.ts'
import { planFor } from '../query-plan-settings.ts'
import type { Storage, Tx } from '../storage.ts'
import { claimDueAttempts } from '../tables/authorisation-attempts.ts'
import { disputesOfTransactions, listDisputes } from '../tables/disputes.ts'
import { listFrauds } from '../tables/frauds.ts'
import { entriesOfLines, hiddenEntriesOfDisputes } from '../tables/ledger.ts'
import { linesOfTransactions, listLines, listPayoutLines } from '../tables/lines.ts'
import {
  findTransaction,
  listExpiredTransactions,
  listTransactions,
  listTransactionsInOrder,
  listWithoutTrails,
  lockTransaction,
} from '../tables/transactions.ts'
import { explainQueries } from '../testing/explain-queries.ts'
import { fillTables, kinds, rowId, rowTimeMs } from '../testing/fill-tables.ts'
import { openMerchant } from '../testing/payments-under-test.ts'
import { firstFrom, lastUntil, timedLists } from '../time-cursors.ts'
import { migrate, readMigrations } from './migrate.ts'
import { openPostgres } from './postgres.ts'

const rows = 20_000
const limit = 20
const middle = rows / 2
const middleMs = rowTimeMs(middle)
/**
 * Tables that a statement may read as a whole: they have few rows for each merchant, or are not filled here.
 */
const small = ['merchants', 'merchant_apps', 'webhook_endpoints']

/**
 * At most this many rows and pages may be read. Most are read by a claim of deliveries: 512 due ones, each
 * with the endpoint and earlier deliveries of the subject.
 */
const maxRows = 7_000
const maxPages = 5_000
/**
 * Queries that may sort all rows of a merchant. Without statistics, PostgreSQL expects 100 rows of each
 * merchant and sorts them in the first executions on a connection. Lists of a merchant with more rows are
 * slow until autovacuum has analysed the table.
 */
const sortedByFirstUse = ['list lines', 'list lines by time', 'list events']

const idsOf = (kind: number) => Array.from({ length: limit }, (_, index) => rowId(kind, middle + index * 10))
const all = { reference: null, custom: null, status: null, fromMs: null, toMs: null }
const range = { fromMs: middleMs, toMs: null }

/**
 * Returns the queries whose cost must not grow with the tables. Each returns or changes at most `limit` rows.
 */
function boundedQueries(merchantId: string, otherId: string): Record<string, (tx: Tx) => Promise<unknown>> {
  const { transaction, line, dispute, event } = kinds
  const before = rowId(transaction, middle)
  const claim = { nowMs: middleMs, leaseUntilMs: middleMs + 1, limit, perEndpoint: 5, without: [] }
  const sweeps = {
    'claim deliveries': (tx: Tx) => claimDueDeliveries(tx, claim),
    'claim mails': (tx: Tx) => claimDueMails(tx, middleMs, middleMs + 1, limit),
    'claim instructions': (tx: Tx) => claimDueInstructions(tx, middleMs, middleMs + 1, limit),
    'claim attempts': (tx: Tx) => claimDueAttempts(tx, middleMs, middleMs + 1, limit),
    'claim waiting events': (tx: Tx) => claimWaitingEvents(tx, true, middleMs, limit),
    'list open exceptions': (tx: Tx) => listOpenExceptions(tx, limit),
    'remove expired keys': (tx: Tx) => removeExpiredKeys(tx, middleMs, limit),
    'list expired transactions': (tx: Tx) => listExpiredTransactions(tx, middleMs, limit),
    ...Object.fromEntries(
      prunables.map(what => [
        `prune ${what}`,
        (tx: Tx) => prune(tx, what, { untilMs: rowTimeMs(rows + 100_000), limit }),
      ]),
    ),
  }
  const verification: Record<string, (tx: Tx) => Promise<unknown>> = {
    'verify: first transactions': (tx: Tx) => listTransactionsInOrder(tx, otherId, null, limit),
    'verify: next transactions': (tx: Tx) => listTransactionsInOrder(tx, merchantId, before, limit),
    'verify: first payouts': (tx: Tx) => listPayoutLines(tx, otherId, null, limit),
    'verify: next payouts': (tx: Tx) => listPayoutLines(tx, merchantId, rowId(line, middle), limit),
    'verify: lines': (tx: Tx) => linesOfTransactions(tx, idsOf(transaction)),
    'verify: entries of lines': (tx: Tx) => entriesOfLines(tx, idsOf(line)),
    'verify: entries of disputes': (tx: Tx) => hiddenEntriesOfDisputes(tx, idsOf(dispute)),
    'verify: disputes': (tx: Tx) => disputesOfTransactions(tx, idsOf(transaction)),
  }
  const searches = {
    'find a transaction': (tx: Tx) => findTransaction(tx, before),
    'lock a transaction': (tx: Tx) => lockTransaction(tx, before),
    'find by the reference of the processor': (tx: Tx) => findTransactionId(tx, `p${middle}`, true),
    'list transactions': (tx: Tx) => listTransactions(tx, merchantId, { limit }),
    'list transactions after a cursor': (tx: Tx) => listTransactions(tx, merchantId, { limit, before }),
    'search by time': (tx: Tx) => listTransactions(tx, merchantId, { limit }, { ...all, ...range }),
    'search by reference': (tx: Tx) =>
      listTransactions(tx, merchantId, { limit }, { ...all, reference: `r${middle}` }),
    export: (tx: Tx) =>
      listWithoutTrails(
        tx,
        merchantId,
        { limit, before, order: 'newest' },
        { ...all, fromMs: 0, toMs: null },
      ),
    'list lines': (tx: Tx) => listLines(tx, merchantId, { limit, before: rowId(line, middle) }),
    'list lines by time': (tx: Tx) => listLines(tx, merchantId, { limit }, { transactionId: null, ...range }),
    'list frauds': (tx: Tx) => listFrauds(tx, merchantId, { limit }),
    'list disputes': (tx: Tx) => listDisputes(tx, merchantId, { limit }),
    'list events': (tx: Tx) => listWebhookEvents(tx, merchantId, { limit, before: rowId(event, middle) }),
  }
  const cursors = (['transactions', 'lines', 'frauds', 'disputes', 'events'] as const).flatMap(list => [
    [`last of ${list} until a time`, (tx: Tx) => lastUntil(tx, timedLists[list], merchantId, middleMs)],
    [`first of ${list} from a time`, (tx: Tx) => firstFrom(tx, timedLists[list], merchantId, middleMs)],
  ])
  const replay = Object.entries(verification).map(([name, read]) => [
    name,
    (tx: Tx) => planFor(tx, 'parts of tables', () => read(tx)),
  ])
  return { ...sweeps, ...Object.fromEntries(replay), ...searches, ...Object.fromEntries(cursors) }
}

describe('the cost of queries does not grow with the tables', { skip: missingPostgres() }, () => {
  let server: PostgresServer
  let storage: Storage
  let queries: ReturnType<typeof boundedQueries>

  before(async () => {
    // Without autovacuum, the tables have no statistics, as after a restore.
    server = await startPostgres(['autovacuum=off', 'fsync=off'])
    storage = openPostgres({ url: server.url, clock: systemClock, random: Math.random })
    await migrate(storage, readMigrations(), systemClock)
    const merchantIds: string[] = []
    while (merchantIds.length < 40) merchantIds.push((await openMerchant(storage)).merchant.id)
    await server.sql(fillTables(merchantIds, rows))
    queries = boundedQueries(merchantIds[0] ?? '', merchantIds[1] ?? '')
  })
  after(async () => {
    await storage?.close()
    await server?.stop()
  })

  async function findGrowing(withStatistics: boolean): Promise<readonly string[]> {
    const growing: string[] = []
    for (const [name, work] of Object.entries(queries)) {
      for (const uses of [0, 6]) {
        for (const { sql, rowsRead, pages, scannedTables } of await explainQueries(storage, uses, work)) {
          const scanned = scannedTables.filter(table => !small.includes(table))
          if (scanned.length === 0 && rowsRead <= maxRows && pages <= maxPages) continue
          if (sortedByFirstUse.includes(name) && !withStatistics && uses === 0) continue
          growing.push(
            `${name} (${uses} uses before): ${rowsRead} rows, ${pages} pages, scans ${scanned}: ${sql}`,
          )
        }
      }
    }
    return growing
  }

  test('queries on tables without statistics read as few rows of large tables as of small ones', async () => {
    assert.deepEqual(await findGrowing(false), [])
  })

  test('queries on tables with statistics read as few rows of large tables as of small ones', async () => {
    await server.sql('ANALYZE')
    assert.deepEqual(await findGrowing(true), [])
  })

  test('an index finds the rows that refer to a row that pruning deletes', async () => {
    const missing = await server.sql(`SELECT conrelid::regclass || '.' || conname FROM pg_constraint
      WHERE contype = 'f' AND confrelid IN ('webhook_events'::regclass, 'webhook_endpoints'::regclass)
        AND NOT EXISTS (SELECT FROM pg_index WHERE indrelid = conrelid AND indpred IS NULL
          AND indkey[0] = conkey[1])`)
    assert.equal(missing, '')
  })
})
