import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { before, test } from 'node:test'
import { silentLog } from '@tollway/chassis/log/log.ts'
import { AddressPolicy } from '@tollway/chassis/webhooks/address-policy.ts'
import { findWebhookSecretProblem } from '@tollway/chassis/webhooks/webhook-secret.ts'
import { WebhookDeliverer } from '../../deliver-webhooks.ts'
import { pruneExpired } from '../../tasks.ts'
import { type ApiUnderTest, openShop, payAt, sharedApi, type TestShop } from './api-under-test.ts'

const dayMs = 86_400_000

let api: ApiUnderTest
let shop: TestShop
before(async () => {
  api = await sharedApi()
  shop = await openShop(api)
})

interface Webhook {
  readonly id: string
  readonly url: string
  readonly events: readonly string[]
  readonly disabled: string | null
  readonly secret?: string
  readonly waiting?: { readonly events: number; readonly error: string | null }
}

interface Event {
  readonly id: string
  readonly type: string
  readonly data: { readonly transaction?: { readonly id: string; readonly capturedAmount: number } }
}

async function call(method: string, path: string, json?: object): Promise<unknown> {
  const answer = await api.call(method, path, { key: shop.key, ...(json === undefined ? {} : { json }) })
  assert.ok(answer.status < 300, `${method} ${path}: ${answer.status} ${answer.text}`)
  return answer.json
}

async function create(json: object = { url: 'https://example.com/' }): Promise<Webhook> {
  const { webhook } = (await call('POST', `/merchants/${shop.merchantId}/webhooks`, json)) as {
    webhook: Webhook
  }
  return webhook
}

async function read(id: string): Promise<Webhook> {
  return ((await call('GET', `/webhooks/${id}`)) as { webhook: Webhook }).webhook
}

const listed = async (list: string, query = '') =>
  (await call('GET', `/merchants/${shop.merchantId}/${list}?limit=100${query}`)) as unknown

test('a secret is shown once, and a new one is added beside the old one', async () => {
  const made = await create({ url: 'https://example.com/hook', events: ['transaction.captured'] })
  assert.equal(findWebhookSecretProblem(made.secret ?? ''), undefined)
  assert.equal((await read(made.id)).secret, undefined)
  assert.ok(!JSON.stringify(await listed('webhooks')).includes('whsec_'))
  const { webhook } = (await call('POST', `/webhooks/${made.id}/secrets`)) as { webhook: Webhook }
  assert.equal(findWebhookSecretProblem(webhook.secret ?? ''), undefined)
  assert.notEqual(webhook.secret, made.secret)
  await call('POST', `/webhooks/${made.id}/secrets`)
  assert.ok(!api.logged().includes('whsec_'))
})

test('URLs of private addresses and unknown events are rejected', async () => {
  const table: readonly [object, string][] = [
    [{}, 'url required'],
    [{ url: 'http://example.com/' }, 'url format'],
    [{ url: 'https://169.254.169.254/latest' }, 'url format'],
    [{ url: 'https://[::1]/' }, 'url format'],
    [{ url: 'https://joe:pw@example.com/' }, 'url format'],
    [{ url: 'https://example.com/', events: ['nothing.happened'] }, 'events.0 unsupported'],
    [{ url: 'https://example.com/', events: 'transaction.captured' }, 'events type'],
    [{ url: 'https://example.com/', secret: 'whsec_x' }, 'secret unknown'],
  ]
  for (const [json, expected] of table) {
    const path = `/merchants/${shop.merchantId}/webhooks`
    const answer = await api.call('POST', path, { key: shop.key, json })
    const [fault] = answer.json as { field: string; code: string }[]
    assert.equal(`${fault?.field} ${fault?.code}`, expected, JSON.stringify(json))
  }
  const form = 'url=https%3A%2F%2Fexample.com&events=dispute.won,dispute.lost'
  const made = await api.call('POST', `/merchants/${shop.merchantId}/webhooks`, { key: shop.key, form })
  assert.deepEqual((made.json as { webhook: Webhook }).webhook.events, ['dispute.won', 'dispute.lost'])
})

test('a webhook is changed, disabled, enabled and deleted', async () => {
  const { id } = await create()
  await call('PUT', `/webhooks/${id}`, { events: ['dispute.won'], disabled: true })
  const changed = await read(id)
  assert.deepEqual([changed.url, changed.events], ['https://example.com/', ['dispute.won']])
  assert.ok(changed.disabled)
  await call('PUT', `/webhooks/${id}`, { url: 'https://example.org/' })
  assert.equal((await read(id)).disabled, changed.disabled)
  await call('PUT', `/webhooks/${id}`, { disabled: false })
  assert.equal((await read(id)).disabled, null)
  await call('DELETE', `/webhooks/${id}`)
  const gone = await api.call('GET', `/webhooks/${id}`, { key: shop.key })
  assert.equal(gone.status, 404)
  assert.ok(!JSON.stringify(await listed('webhooks')).includes(id))
})

test('a merchant has at most 20 webhooks, also after simultaneous requests', async () => {
  const other = await openShop(api)
  const post = () =>
    api.call('POST', `/merchants/${other.merchantId}/webhooks`, {
      key: other.key,
      json: { url: 'https://example.com/' },
    })
  const answers = await Promise.all(Array.from({ length: 30 }, post))
  assert.deepEqual(answers.map(({ status }) => status).toSorted(), [
    ...Array(20).fill(201),
    ...Array(10).fill(409),
  ])
})

/** Starts a receiver on this machine. The API rejects its address, so `pointTo` stores it in the database. */
async function startReceiver(status: () => number) {
  const received: string[] = []
  const signed: SignedEvent[] = []
  const server = createServer(async (request, response) => {
    const { headers } = request
    const [id, timestamp, signatures] = ['id', 'timestamp', 'signature'].map(
      name => `${headers[`webhook-${name}`]}`,
    ) as [string, string, string]
    received.push(id)
    signed.push({ content: `${id}.${timestamp}.${await text(request)}`, signatures: signatures.split(' ') })
    response.writeHead(status()).end()
  })
  await new Promise<void>(resolve => {
    server.listen(0, '127.0.0.1', resolve)
  })
  const { port } = server.address() as AddressInfo
  return { received, signed, url: `http://127.0.0.1:${port}/`, close: () => server.close() }
}

interface SignedEvent {
  readonly content: string
  readonly signatures: readonly string[]
}

async function pointTo(id: string, url: string): Promise<void> {
  await api.storage.transaction(tx =>
    tx.query('UPDATE webhook_endpoints SET url = $2 WHERE id = $1', [id, url]),
  )
}

async function deliverAll(): Promise<void> {
  const { clock, storage } = api
  const policy = new AddressPolicy([{ address: '127.0.0.1', prefix: 32 }], true)
  const resolve = () => Promise.reject(new Error('unknown here'))
  const deliverer = new WebhookDeliverer({
    clock,
    storage,
    policy,
    resolve,
    random: () => 0,
    log: silentLog,
  })
  while (await deliverer.deliverDue());
}

test('an event is delivered, is in the log, and can be delivered again', async t => {
  let status = 500
  const receiver = await startReceiver(() => status)
  t.after(receiver.close)
  const { received } = receiver
  const { id } = await create()
  await pointTo(id, receiver.url)
  const payment = await payAt(api, shop)
  await call('POST', `/transactions/${payment.id}/captures`, { amount: 300 })
  await deliverAll()
  const filter = `&filter[subjectId]=${payment.id}`
  const events = (await listed('events', filter)) as Event[]
  const [captured, created] = events
  assert.deepEqual([captured?.type, created?.type], ['transaction.captured', 'transaction.created'])
  assert.equal(captured?.data.transaction?.capturedAmount, 300)
  assert.deepEqual(received, [created?.id])
  assert.deepEqual((await read(id)).waiting, { events: 2, error: 'the answer was 500' })
  status = 204
  received.length = 0
  await call('POST', `/webhooks/${id}/retries`)
  await deliverAll()
  assert.deepEqual(received, [created?.id, captured?.id])
  await call('POST', `/webhooks/${id}/events/${created?.id}/deliveries`)
  await deliverAll()
  assert.equal(received[2], created?.id)
  const own = (await call('GET', `/events/${captured?.id}`)) as { event: Event }
  assert.deepEqual(own.event, captured)
  const ofType = (await listed('events', `${filter}&filter[type]=transaction.created`)) as Event[]
  assert.deepEqual(
    ofType.map(event => event.id),
    [created?.id],
  )
})

test('the previous secret signs beside the new one until the next rotation', async t => {
  const receiver = await startReceiver(() => 200)
  t.after(receiver.close)
  const { id, secret: first = '' } = await create({ url: 'https://example.com/', events: ['card.saved'] })
  await pointTo(id, receiver.url)
  const rotate = async () =>
    ((await call('POST', `/webhooks/${id}/secrets`)) as { webhook: Webhook }).webhook.secret ?? ''
  const { id: transactionId } = await payAt(api, shop)
  const signatureBy = (secret: string, content: string) => {
    const key = Buffer.from(secret.replace('whsec_', ''), 'base64')
    return `v1,${createHmac('sha256', key).update(content).digest('base64')}`
  }
  const secrets = [first]
  for (const count of [1, 2, 2]) {
    await call('POST', `/merchants/${shop.merchantId}/cards`, { transactionId })
    await deliverAll()
    const { content, signatures } = receiver.signed.at(-1) ?? assert.fail('nothing came')
    const expected = secrets.slice(0, count).map(secret => signatureBy(secret, content))
    assert.deepEqual(signatures, expected)
    secrets.unshift(await rotate())
  }
})

test('events of the time of a disabled webhook are in the log, and are not delivered later', async () => {
  const { id } = await create({ url: 'https://example.com/', events: ['transaction.created'] })
  const before = await payAt(api, shop)
  await call('PUT', `/webhooks/${id}`, { disabled: true })
  const missed = await payAt(api, shop)
  await call('PUT', `/webhooks/${id}`, { disabled: false })
  assert.equal((await read(id)).waiting?.events, 1)
  for (const { id: subject } of [before, missed]) {
    assert.equal(((await listed('events', `&filter[subjectId]=${subject}`)) as Event[]).length, 1)
  }
  const [event] = (await listed('events', `&filter[subjectId]=${missed.id}`)) as Event[]
  await call('POST', `/webhooks/${id}/events/${event?.id}/deliveries`)
  assert.equal((await read(id)).waiting?.events, 2)
})

test('deliveries are removed after their time, and the log keeps the event for a new delivery', async () => {
  const { id } = await create({ url: 'https://example.com/', events: ['transaction.created'] })
  const { id: subject } = await payAt(api, shop)
  const [event] = (await listed('events', `&filter[subjectId]=${subject}`)) as Event[]
  const { clock, storage } = api
  const rows = async (change: string) =>
    (await storage.transaction(tx => tx.query(change, [id, new Date(clock.nowMs())]))).length
  const ofWebhook = 'webhook_deliveries WHERE endpoint_id = $1 AND due <= $2'
  await rows('UPDATE webhook_deliveries SET delivered = $2 WHERE endpoint_id = $1')
  const forget = pruneExpired(api.payments, { deliveryMs: 0, eventMs: dayMs })
  while (await forget());
  assert.equal(await rows(`SELECT 1 AS one FROM ${ofWebhook}`), 0)
  assert.deepEqual(((await call('GET', `/events/${event?.id}`)) as { event: Event }).event, event)
  await call('POST', `/webhooks/${id}/events/${event?.id}/deliveries`)
  assert.equal(await forget(), false)
  assert.equal(await rows(`SELECT 1 AS one FROM ${ofWebhook}`), 1)
})
