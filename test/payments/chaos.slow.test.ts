import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, before, describe, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { seededRandom } from '../support/api-proxy.ts'
import { missingPostgres, type PostgresServer, startPostgres } from '../support/postgres-server.ts'
import { startLossyProxy } from './lossy-proxy.ts'
import {
  askAdmin,
  openShop,
  type PaymentsProcess,
  removeState,
  type Shop,
  startPaymentsProcess,
} from './payments-process.ts'
import { createRetryingClient, postOnce, type RetryingClient } from './retrying-client.ts'

const soak = process.env['SOAK'] === '1'
/** The duration of the faults; 0 skips the test. */
const chaosMs = 1_000 * Number(process.env['CHAOS_SECONDS'] ?? (soak ? 300 : 0))
const faultEveryMs = 2_000
const workers = soak ? 16 : 4
const storms = soak ? 1_000 : 5
/** The duration of a pause, which is longer than the lease. */
const stopMs = 4_000
/** The lease is shorter than by default, since a request whose process was killed waits for its lease. */
const env = { IDEMPOTENCY_LEASE: '3s' }
/** The deadline is many leases: a request may meet one fault after the other. */
const deadlineMs = 150_000
const seed = Number(process.env['SEED'] ?? 20_261_121)

const faults = ['kill PostgreSQL', 'kill a pod', 'stop a pod'] as const
type Fault = (typeof faults)[number]

/** The amounts of a transaction by the answers. */
interface Promised {
  readonly id: string
  readonly pendingAmount: number
  readonly capturedAmount: number
  readonly refundedAmount: number
  readonly voidedAmount: number
}

const skip = missingPostgres() || (chaosMs === 0 && 'takes a minute: CHAOS_SECONDS=60 or SOAK=1 runs it')

describe('payments while processes are killed and paused', {
  skip,
  timeout: 2 * chaosMs + 120_000,
}, () => {
  let postgres: PostgresServer
  let url = ''
  let services: PaymentsProcess[] = []
  let shop: Shop
  before(async () => {
    postgres = await startPostgres()
    url = await postgres.createDatabase('payments')
    const first = await startPaymentsProcess(url, env)
    services = [first, await startPaymentsProcess(url, env)]
    shop = await openShop(url, first.url)
  })
  after(async () => {
    await Promise.all(services.map(service => service.kill()))
    await postgres?.stop()
    await removeState()
  })

  async function counted(sql: string): Promise<number> {
    return Number(await postgres.sql(sql, 'payments'))
  }

  async function assertProved(): Promise<void> {
    const { code, output } = await askAdmin(url, ['verify'])
    assert.equal(code, 0, output)
  }

  test('the API and PostgreSQL are killed, and answers get lost: no call is lost or repeated', async t => {
    const random = seededRandom(seed)
    const ports = services.map(service => Number(new URL(service.url).port))
    const proxy = await startLossyProxy(ports, 0.2, random)
    const client = createRetryingClient({
      url: proxy.url,
      authorization: shop.authorization,
      deadlineMs,
    })
    let endMs = performance.now() + chaosMs
    const promised: Promised[] = []
    const working = Array.from({ length: workers }, async () => {
      while (performance.now() < endMs) promised.push(await oneLife(client, shop, random))
    })
    const met = new Map<Fault, number>()
    const disturbing = disturbUntil(
      () => endMs,
      fault => met.set(fault, (met.get(fault) ?? 0) + 1),
    )
    try {
      await Promise.all([...working, disturbing])
    } finally {
      endMs = 0
      await Promise.allSettled([...working, disturbing])
      proxy.close()
    }
    const { sent, replayed, longestMs } = client.counts()
    t.diagnostic(
      `${promised.length} transactions, ${sent} requests, ${JSON.stringify(Object.fromEntries(met))}, ` +
        `${proxy.lost()} answers lost, ${replayed} given again, the longest wait ${longestMs} ms`,
    )
    assert.ok(promised.length > 0 && met.size === faults.length && proxy.lost() > 0)
    for (const expected of promised) assert.deepEqual(await read(expected.id), expected)
    // The shop's first payment is one more.
    assert.equal(await counted('SELECT count(*) FROM transactions'), promised.length + 1)
    const entries = promised.length * 3
    assert.equal(await counted('SELECT count(*) FROM trail_entries'), entries)
    assert.equal(await counted('SELECT count(*) FROM ledger_entries'), promised.length * 2)
    await assertProved()
  })

  /** Kills or pauses one process after the other, and starts or continues it. */
  async function disturbUntil(endMs: () => number, onFault: (fault: Fault) => void): Promise<void> {
    for (let turn = 0; performance.now() + faultEveryMs < endMs(); turn += 1) {
      await pause(faultEveryMs)
      const fault = faults[turn % faults.length] ?? 'kill PostgreSQL'
      const service = services[Math.floor(turn / faults.length) % services.length]
      onFault(fault)
      if (fault === 'kill PostgreSQL') await postgres.restart()
      else if (fault === 'stop a pod') {
        service?.signal('SIGSTOP')
        await pause(stopMs)
        service?.signal('SIGCONT')
      } else {
        await service?.kill()
        await service?.start()
      }
    }
  }

  async function read(id: string): Promise<Promised> {
    const headers = { authorization: shop.authorization }
    const response = await fetch(`${services[0]?.url}/transactions/${id}`, { headers })
    assert.equal(response.status, 200, `${id} was promised`)
    const { transaction } = (await response.json()) as { transaction: Promised }
    const { pendingAmount, capturedAmount, refundedAmount, voidedAmount } = transaction
    return { id, pendingAmount, capturedAmount, refundedAmount, voidedAmount }
  }

  test(`100 calls with one key, ${storms} times: each has one effect`, async () => {
    for (let storm = 1; storm <= storms; storm += 1) {
      const key = randomUUID()
      const path = `/transactions/${shop.transactionId}/captures`
      const calls = Array.from({ length: 100 }, (_, index) => {
        const target = {
          url: services[index % services.length]?.url ?? '',
          authorization: shop.authorization,
          timeoutMs: 60_000,
        }
        return postOnce(target, path, { amount: 7 }, key)
      })
      const answers = await Promise.all(calls)
      const done = answers.filter(answer => answer?.status === 201)
      assert.ok(done.length > 0)
      assert.equal(new Set(done.map(answer => answer?.body)).size, 1)
      for (const answer of answers) {
        assert.ok(answer?.status === 201 || answer?.body.includes('idempotency_in_progress'), answer?.body)
      }
      assert.equal((await read(shop.transactionId)).capturedAmount, 7 * storm)
    }
    await assertProved()
  })
})

/** A payment by a known card, a capture, a refund and a void, each until it was answered. */
async function oneLife(client: RetryingClient, shop: Shop, random: () => number): Promise<Promised> {
  const amount = 1_000 + Math.floor(random() * 1_000)
  const captured = 1 + Math.floor(random() * (amount - 2))
  const refunded = 1 + Math.floor(random() * captured)
  const payment = { transactionId: shop.transactionId, currency: 'DKK', amount }
  const { id } = await post(client, `/merchants/${shop.merchantId}/transactions`, payment)
  await post(client, `/transactions/${id}/captures`, { amount: captured })
  await post(client, `/transactions/${id}/refunds`, { amount: refunded })
  await post(client, `/transactions/${id}/voids`, { amount: amount - captured })
  const voidedAmount = amount - captured
  return { id, pendingAmount: 0, capturedAmount: captured, refundedAmount: refunded, voidedAmount }
}

async function post(client: RetryingClient, path: string, json: object): Promise<{ readonly id: string }> {
  const { status, body } = await client.post(path, json)
  assert.equal(status, 201, `${path}: ${status} ${body}`)
  return (JSON.parse(body) as { transaction: { id: string } }).transaction
}
