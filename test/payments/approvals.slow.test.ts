import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { seededRandom } from '../support/api-proxy.ts'
import { missingPostgres, type PostgresServer, startPostgres } from '../support/postgres-server.ts'
import { waitFor } from '../support/wait-for.ts'
import {
  askAdmin,
  openShop,
  type PaymentsProcess,
  removeState,
  type Shop,
  startPaymentsProcess,
} from './payments-process.ts'
import { createRetryingClient, postOnce } from './retrying-client.ts'

const soak = process.env['SOAK'] === '1'
/** The minimum; PAYMENTS sets another size of the long form. */
const payments = soak ? Number(process.env['PAYMENTS'] ?? 10_000) : 50
const workers = soak ? 64 : 8
/** The pause between two faults of the long form, so that most of the payments are made at all. */
const calmMs = soak ? 15_000 : 0
/** The long form locks for longer than a transaction is retried. */
const lockSeconds = soak ? 14 : 3
const stopMs = soak ? 14_000 : 3_000
const sweepAfter = soak ? '60s' : '4s'
const deadlineMs = 180_000
const seed = Number(process.env['SEED'] ?? 20_261_122)

describe('approvals and payments', { skip: missingPostgres(), timeout: soak ? 3_600_000 : 180_000 }, () => {
  let postgres: PostgresServer
  let url = ''
  let services: PaymentsProcess[] = []
  let shop: Shop
  before(async () => {
    postgres = await startPostgres()
    url = await postgres.createDatabase('payments')
    const env = { AUTHORISATION_SWEEP_AFTER: sweepAfter, IDEMPOTENCY_LEASE: soak ? '15s' : '3s' }
    const first = await startPaymentsProcess(url, env)
    services = [first, await startPaymentsProcess(url, env)]
    shop = await openShop(url, first.url)
  })
  after(async () => {
    await Promise.all(services.map(service => service.kill()))
    await postgres?.stop()
    await removeState()
  })

  const counted = async (sql: string) => Number(await postgres.sql(sql, 'payments'))

  /** Ends statements that store payments, as a statement timeout does, for two seconds. */
  const cancelStatements = () =>
    postgres.sql(
      `DO $$ BEGIN
        FOR turn IN 1..300 LOOP
          PERFORM pg_stat_clear_snapshot();
          PERFORM pg_cancel_backend(pid) FROM pg_stat_activity
            WHERE application_name = 'tollway-payments' AND state = 'active'
              AND query LIKE '%INTO transactions%';
          PERFORM pg_sleep(0.005);
        END LOOP;
      END $$`,
      'payments',
    )

  const faults: readonly ((service: PaymentsProcess | undefined) => Promise<unknown>)[] = [
    cancelStatements,
    async service => {
      service?.signal('SIGSTOP')
      await pause(stopMs)
      service?.signal('SIGCONT')
    },
    async service => {
      await service?.kill()
      await service?.start()
    },
    () =>
      postgres.sql(
        `BEGIN; LOCK TABLE transactions IN SHARE MODE; SELECT pg_sleep(${lockSeconds}); COMMIT`,
        'payments',
      ),
  ]

  test('approvals and payments have the same number in the end after any failures', async t => {
    const random = seededRandom(seed)
    const { authorization, merchantId, transactionId } = shop
    const path = `/merchants/${merchantId}/transactions`
    const input = { transactionId, currency: 'DKK', amount: 500 }
    let met = 0
    let begun = 0
    let acknowledged = 0
    let abandoned = 0
    const work = async (index: number) => {
      const clients = services.map(({ url: to }) =>
        createRetryingClient({ url: to, authorization, deadlineMs }),
      )
      for (let turn = 0; begun < payments || met < faults.length; turn += 1) {
        begun += 1
        const service = (index + turn) % services.length
        // One in ten callers does not repeat its request, whatever the answer was.
        if (random() < 0.1) {
          const target = { url: services[service]?.url ?? '', authorization }
          const answer = await postOnce(target, path, input, `once-${index}-${turn}`)
          if (answer?.status === 201) acknowledged += 1
          else abandoned += 1
        } else {
          assert.equal((await clients[service]?.post(path, input))?.status, 201)
          acknowledged += 1
        }
      }
    }
    let done = false
    const working = Promise.all(Array.from({ length: workers }, (_, index) => work(index))).finally(() => {
      done = true
    })
    for (; !done; met += 1) {
      await faults[met % faults.length]?.(services[Math.floor(random() * services.length)])
      await pause(calmMs)
    }
    await working
    const open = 'SELECT count(*) FROM authorisation_attempts'
    await waitFor('every attempt to have an outcome', async () => (await counted(open)) === 0, deadlineMs)
    const approvals = 'SELECT count(*) FROM test_processor_answers WHERE approved'
    const held = await counted(`${approvals} AND cancelled IS NULL`)
    const voided = await counted(`${approvals} AND cancelled IS NOT NULL`)
    // The shop's first payment was made before.
    const made = await counted('SELECT count(*) FROM transactions WHERE error IS NULL')
    t.diagnostic(
      `${begun} requests, ${met} faults, ${acknowledged} acknowledged, ${abandoned} given up by their ` +
        `callers, ${held} approvals held, ${voided} voided, ${made} payments`,
    )
    assert.equal(held, made)
    assert.ok(made >= acknowledged + 1 && made <= begun + 1, `${made} payments`)
    const orphans = `SELECT count(*) FROM test_processor_answers a WHERE approved AND cancelled IS NULL
      AND NOT EXISTS (SELECT FROM transactions t WHERE t.id = a.operation_id::uuid)`
    assert.equal(await counted(orphans), 0)
    const { code, output } = await askAdmin(url, ['verify'])
    assert.equal(code, 0, output)
  })
})
