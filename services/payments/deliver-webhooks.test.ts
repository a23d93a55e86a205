import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, before, beforeEach, describe, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { type Clock, systemClock } from '@tollway/chassis/clock.ts'
import { silentLog } from '@tollway/chassis/log/log.ts'
import { AddressPolicy } from '@tollway/chassis/webhooks/address-policy.ts'
import { newWebhookSecret } from '@tollway/chassis/webhooks/webhook-secret.ts'
import { missingPostgres, type PostgresServer, startPostgres } from '../../test/support/postgres-server.ts'
import { startProgram } from '../../test/support/program.ts'
import { waitFor } from '../../test/support/wait-for.ts'
import { deliveryWaitMs, WebhookDeliverer } from './deliver-webhooks.ts'
import type { Merchant } from './domain/merchant.ts'
import { waitingAt } from './storage/delivery/webhook-deliveries.ts'
import {
  findWebhookEndpoint,
  insertWebhookEndpoint,
  insertWebhookEvent,
} from './storage/delivery/webhooks.ts'
import { migrate, readMigrations } from './storage/engine/migrate.ts'
import { openPostgres } from './storage/engine/postgres.ts'
import type { Storage } from './storage/storage.ts'
import { openMerchant, someId } from './storage/testing/payments-under-test.ts'

const hourMs = 60 * 60 * 1000
const secrets = [7, 8].map(fill => newWebhookSecret(count => new Uint8Array(count).fill(fill)))

interface Received {
  readonly path: string
  readonly id: string
  readonly body: string
  readonly timestampMs: number
  readonly signatures: readonly string[]
}

describe('the delivery of webhooks', { skip: missingPostgres() }, () => {
  let postgres: PostgresServer
  let storage: Storage
  let merchant: Merchant
  let received: Received[] = []
  /** The status of the next answers; `silence` sends no answer. */
  let answer: number | Promise<number> | 'silence' = 200
  const server = createServer(async (request, response) => {
    const { headers } = request
    received.push({
      path: request.url ?? '',
      id: String(headers['webhook-id']),
      body: await textOf(request),
      timestampMs: Number(headers['webhook-timestamp']) * 1000,
      signatures: String(headers['webhook-signature']).split(' '),
    })
    const status = await answer
    if (status !== 'silence') response.writeHead(request.url === '/broken' ? 500 : status).end()
  })
  before(async () => {
    await new Promise<void>(resolve => {
      server.listen(0, '127.0.0.1', resolve)
    })
    postgres = await startPostgres()
    storage = openPostgres({ url: postgres.url, clock: systemClock, random: Math.random })
    await migrate(storage, readMigrations(), systemClock)
  })
  after(async () => {
    server.closeAllConnections()
    server.close()
    await storage?.close()
    await postgres?.stop()
  })
  beforeEach(async () => {
    received = []
    answer = 200
    await storage.transaction(tx => tx.script('TRUNCATE webhook_deliveries'))
    merchant = (await openMerchant(storage)).merchant
  })

  async function endpoint(path = '/'): Promise<string> {
    const { port } = server.address() as AddressInfo
    const id = someId()
    const url = `http://127.0.0.1:${port}${path}`
    const fields = { id, merchantId: merchant.id, createdMs: Date.now(), url, events: [], secrets }
    await storage.transaction(tx => insertWebhookEndpoint(tx, { ...fields, disabledMs: null }))
    return id
  }

  async function tell(subjects: readonly string[]): Promise<readonly string[]> {
    const ids: string[] = []
    for (const [number, subjectId] of subjects.entries()) {
      const event = { id: someId(), merchantId: merchant.id, createdMs: Date.now(), type: 'a', subjectId }
      ids.push(event.id)
      await storage.transaction(async tx =>
        insertWebhookEvent(tx, { ...event, body: `{"number":${number}}` }),
      )
    }
    return ids
  }

  function open(atMs: number, timeoutMs = 5_000, from: Pick<Storage, 'transaction'> = storage) {
    const outcomes: string[] = []
    const clock: Clock = { nowMs: () => atMs, monotonicMs: systemClock.monotonicMs }
    const deliverer = new WebhookDeliverer({
      storage: { ...storage, ...from },
      clock,
      random: () => 0,
      policy: new AddressPolicy([{ address: '127.0.0.1', prefix: 32 }], true),
      resolve: () => Promise.reject(new Error('no name is looked up here')),
      log: silentLog,
      timeoutMs,
      onOutcome: outcome => outcomes.push(outcome),
    })
    return { deliverer, outcomes }
  }

  async function deliverAt(atMs: number, timeoutMs?: number): Promise<readonly string[]> {
    const { deliverer, outcomes } = open(atMs, timeoutMs)
    while (await deliverer.deliverDue());
    return outcomes
  }

  test('an event arrives signed with each secret', async () => {
    await endpoint()
    const [id = ''] = await tell([someId()])
    const nowMs = Date.now()
    assert.deepEqual(await deliverAt(nowMs), ['delivered'])
    assert.deepEqual(await deliverAt(nowMs + 99 * hourMs), [])
    const [event] = received
    assert.equal(event?.id, id)
    assert.equal(event.timestampMs, Math.floor(nowMs / 1000) * 1000)
    const expected = secrets.map(secret => {
      const key = Buffer.from(secret.replace('whsec_', ''), 'base64')
      const text = `${id}.${event.timestampMs / 1000}.${event.body}`
      return `v1,${createHmac('sha256', key).update(text).digest('base64')}`
    })
    assert.deepEqual(event.signatures, expected)
  })

  test('a receiver that was down for a day gets all events, in the order of each subject', async () => {
    const endpointId = await endpoint()
    const [a, b] = [someId(), someId()]
    const ids = await tell([a, b, a, b, a])
    answer = 503
    const nowMs = Date.now()
    for (let hour = 0; hour < 24; hour += 1) await deliverAt(nowMs + hour * hourMs)
    assert.deepEqual(new Set(received.map(({ id }) => id)), new Set(ids.slice(0, 2)))
    assert.equal((await storage.transaction(tx => waitingAt(tx, endpointId))).lastError, 'the answer was 503')
    received = []
    answer = 200
    assert.equal((await deliverAt(nowMs + 60 * hourMs)).length, 5)
    const numbers = received.map(({ body }) => JSON.parse(body).number as number)
    const order = (parity: number) => numbers.filter(number => number % 2 === parity)
    assert.deepEqual(
      [order(0), order(1)],
      [
        [0, 2, 4],
        [1, 3],
      ],
    )
  })

  test('an event that becomes due during a lookup is delivered next', async () => {
    await endpoint()
    const subject = someId()
    await tell([subject, subject])
    const held = Promise.withResolvers<number>()
    answer = held.promise
    let looks = 0
    const { deliverer, outcomes } = open(Date.now(), 60_000, {
      async transaction(work) {
        const found = await storage.transaction(work)
        looks += 1
        // The first attempt ends during the second lookup, which finds nothing.
        if (looks === 2) {
          held.resolve(503)
          await waitFor('the first try to end', () => outcomes.length === 1)
        }
        return found
      },
    })
    assert.equal(await deliverer.deliverDue(), true)
    assert.equal(await deliverer.deliverDue(), true)
    assert.deepEqual(outcomes, ['postponed'])
    assert.equal(await deliverer.deliverDue(), false)
  })

  test('an event is given up after four days, and the next ones are delivered', async () => {
    await endpoint()
    const subject = someId()
    await tell([subject, subject])
    answer = 500
    const nowMs = Date.now()
    const outcomes: string[] = []
    for (let day = 0; !outcomes.includes('given-up'); day += 1) {
      outcomes.push(...(await deliverAt(nowMs + day * 25 * hourMs)))
    }
    assert.equal(outcomes.indexOf('given-up'), 10)
    answer = 200
    received = []
    assert.deepEqual(await deliverAt(nowMs + 400 * hourMs), ['delivered'])
    assert.deepEqual(
      received.map(({ body }) => body),
      ['{"number":1}'],
    )
  })

  test('an endpoint that answers 410 is disabled', async () => {
    const id = await endpoint()
    await tell([someId()])
    answer = 410
    assert.deepEqual(await deliverAt(Date.now()), ['disabled'])
    assert.ok((await storage.transaction(tx => findWebhookEndpoint(tx, id)))?.disabledMs)
    answer = 200
    await tell([someId()])
    assert.deepEqual(await deliverAt(Date.now() + 99 * hourMs), [])
  })

  test('a silent endpoint does not delay others', async () => {
    answer = 'silence'
    await endpoint()
    await tell(Array.from({ length: 8 }, someId))
    const slow = deliverAt(Date.now() + 4_000, 1_500)
    await waitFor('all places of the silent endpoint taken', () => received.length >= 4)
    answer = 200
    const quick = await endpoint('/quick')
    await tell([someId()])
    await waitFor('the quick one', () => received.some(({ path }) => path === '/quick'))
    assert.ok(received.filter(({ path }) => path === '/').length <= 8)
    await slow
    assert.equal((await storage.transaction(tx => waitingAt(tx, quick))).count, 0n)
  })

  test('two processes deliver each event, also when one of them is killed', async () => {
    const endpointId = await endpoint()
    const program = fileURLToPath(new URL('testing/webhook-sender.ts', import.meta.url))
    const senders = [1, 2].map(() => startProgram(process.execPath, [program, postgres.url]))
    const subjects = Array.from({ length: 10 }, someId)
    const ids = await tell([...subjects, ...subjects, ...subjects, ...subjects])
    await waitFor('some', () => received.length > 4)
    await senders[0]?.end('SIGKILL')
    // Makes all deliveries due, as if the leases of the killed process had expired.
    await storage.transaction(tx => tx.query('UPDATE webhook_deliveries SET due = now()'))
    await waitFor('the rest', async () => {
      return (await storage.transaction(tx => waitingAt(tx, endpointId))).count === 0n
    })
    await senders[1]?.end('SIGKILL')
    assert.deepEqual(new Set(received.map(({ id }) => id)), new Set(ids))
    assert.ok(received.length <= ids.length + 8, `${received.length} for ${ids.length}`)
    for (const [index] of subjects.entries()) {
      const numbers = received.map(({ body }) => JSON.parse(body).number as number)
      const own = numbers.filter(number => number % subjects.length === index)
      assert.deepEqual(
        own,
        own.toSorted((a, b) => a - b),
      )
    }
  })
})

test('attempts continue for four days, with growing intervals', () => {
  const waits = Array.from({ length: 12 }, (_, tries) => deliveryWaitMs(tries + 1, () => 0))
  assert.deepEqual(waits.slice(0, 3), [5_000, 300_000, 1_800_000])
  assert.deepEqual(waits.slice(-3), [24 * hourMs, null, null])
  const totalMs = waits.reduce<number>((sum, wait) => sum + (wait ?? 0), 0)
  assert.ok(totalMs > 96 * hourMs && totalMs < 120 * hourMs, `${totalMs / hourMs} hours`)
  assert.equal(
    deliveryWaitMs(1, () => 0.99999),
    6_250,
  )
  assert.equal(
    deliveryWaitMs(1, () => 0, 60),
    60_000,
  )
  assert.equal(
    deliveryWaitMs(1, () => 0, 999_999),
    24 * hourMs,
  )
  assert.equal(
    deliveryWaitMs(2, () => 0, 1),
    300_000,
  )
})

async function textOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk)
  return Buffer.concat(chunks).toString('utf8')
}
