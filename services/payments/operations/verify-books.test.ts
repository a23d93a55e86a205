import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { systemClock } from '@tollway/chassis/clock.ts'
import { missingPostgres, type PostgresServer, startPostgres } from '../../../test/support/postgres-server.ts'
import { migrate, readMigrations } from '../storage/engine/migrate.ts'
import { openPostgres } from '../storage/engine/postgres.ts'
import { prune } from '../storage/pruning.ts'
import type { Storage } from '../storage/storage.ts'
import { openMerchant } from '../storage/testing/payments-under-test.ts'
import { verifyBooks } from './verify-books.ts'

/** With this many rows, joins in nested loops and lists that are read from the start take minutes. */
const rows = 20_000
const tables = [
  'lines',
  'ledger_entries',
  'ledger_postings',
  'transactions',
  'webhook_events',
  'webhook_deliveries',
] as const

/** Without statistics, as after a restore, the planner does not know the number of rows. */
describe('a large database without statistics', { skip: missingPostgres() }, () => {
  let server: PostgresServer
  let storage: Storage

  before(async () => {
    server = await startPostgres()
    storage = openPostgres({ url: server.urlOf('postgres'), clock: systemClock, random: Math.random })
    await migrate(storage, readMigrations(), systemClock)
    const { merchant } = await openMerchant(storage)
    await server.sql(
      tables.map(table => `ALTER TABLE ${table} SET (autovacuum_enabled = off);`).join('') +
        fillBooks(merchant.id) +
        fillEvents(merchant.id),
    )
  })
  after(async () => {
    await storage.close()
    await server.stop()
  })

  /** Returns the number of rows of a table that were read since the last call. */
  async function readRows(table: (typeof tables)[number]): Promise<number> {
    const sql = `SELECT seq_tup_read + coalesce(idx_tup_fetch, 0) FROM pg_stat_user_tables
      WHERE relname = '${table}'`
    // Forces a server process to report its counts. By itself, it does so at the end of a transaction, at
    // most once a second.
    await storage.transaction(tx => tx.query('SELECT pg_stat_force_next_flush()'))
    const total = Number(await server.sql(sql))
    await server.sql(`SELECT pg_stat_reset_single_table_counters('${table}'::regclass)`)
    return total
  }

  test('the books are verified with a bounded number of reads of each row', async t => {
    for (const table of tables) await readRows(table)
    const { counts, findings } = await verifyBooks(storage)
    assert.deepEqual(findings, [])
    assert.equal(counts.lines, BigInt(rows))
    assert.equal(counts.transactions, BigInt(rows))
    for (const table of tables.slice(0, 4)) {
      const perRow = (await readRows(table)) / rows
      t.diagnostic(`${table}: ${perRow.toFixed(1)} reads for each row`)
      assert.ok(perRow < 20, `${table}: ${perRow} reads for each row`)
    }
  })

  test('pruning an event reads only its own deliveries', async t => {
    const limit = 200
    const removed = (what: 'webhook deliveries' | 'events') =>
      storage.transaction(tx => prune(tx, what, { untilMs: Date.now(), limit }))
    assert.equal(await removed('webhook deliveries'), limit)
    await readRows('webhook_deliveries')
    assert.equal(await removed('events'), limit)
    const reads = await readRows('webhook_deliveries')
    t.diagnostic(`${reads} reads of deliveries`)
    assert.ok(reads < 10 * limit, `${reads} reads of deliveries`)
  })
})

const uuid = (kind: number) => `('0000000${kind}-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid`
const series = `FROM generate_series(1, ${rows}) AS n`

/** Returns statements that store payouts, and transactions whose amounts are pending. */
function fillBooks(merchantId: string): string {
  return `BEGIN;
    INSERT INTO lines (id, merchant_id, test, created, position, kind, balance, fee_flat, fee_rate,
      description, amount, currency)
    SELECT ${uuid(1)}, '${merchantId}', true, now(), n, 'payout', -1, 0, 0, '', 1, 'DKK' ${series};
    INSERT INTO ledger_entries (id, merchant_id, test, created, kind, line_id)
    SELECT ${uuid(2)}, '${merchantId}', true, now(), 'payout', ${uuid(1)} ${series};
    INSERT INTO ledger_postings (entry_id, number, merchant_id, account, currency, amount)
    SELECT ${uuid(2)}, p.number, '${merchantId}', p.account, 'DKK', p.amount ${series},
      (VALUES (1, 'merchant', -1), (2, 'payouts', 1)) AS p (number, account, amount);
    INSERT INTO transactions (id, merchant_id, test, created, position, currency, amount, descriptor,
      pending_amount, captured_amount, refunded_amount, voided_amount, disputed_amount, refundable_value,
      card_bin, card_last4, card_expiry_year, card_expiry_month, card_scheme, card_token, card_fingerprint,
      recurring, expires, has_pending)
    SELECT ${uuid(3)}, '${merchantId}', true, now(), n, 'DKK', 1, '', 1, 0, 0, 0, 0, 0,
      '410000', '0000', 2099, 12, 'visa', 'token', 'print', false, now() + interval '7 days', true ${series};
    COMMIT;`
}

/** Each event has one delivery, and an id with a time in 1970, so that pruning deletes all. */
function fillEvents(merchantId: string): string {
  const endpoint = '00000009-0000-7000-8000-000000000001'
  return `INSERT INTO webhook_endpoints (id, merchant_id, created, position, url, events, secrets)
    VALUES ('${endpoint}', '${merchantId}', now(), 1, 'https://shop.example/', '{}', '{secret}');
    INSERT INTO webhook_events (id, merchant_id, created, position, type, subject_id, body)
    SELECT ${uuid(4)}, '${merchantId}', to_timestamp(0), n, 'capture', ${uuid(3)}, '{}' ${series};
    INSERT INTO webhook_deliveries (endpoint_id, event_id, subject_id, position, due, delivered)
    SELECT '${endpoint}', ${uuid(4)}, ${uuid(3)}, n, to_timestamp(0), to_timestamp(n) ${series};`
}
