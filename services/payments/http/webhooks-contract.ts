import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { before, test } from 'node:test'
import { silentLog } from '@tollway/chassis/log.ts'
import { createAddressPolicy } from '../webhooks/address-policy.ts'
import { createWebhookDeliverer } from '../webhooks/deliver-webhooks.ts'
import { isWebhookSecret } from '../webhooks/signature.ts'
import { type ApiUnderTest, openShop, payAt, sharedApi, type TestShop } from './api-under-test.ts'

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

test('a secret is shown once, and a new one beside the old', async () => {
  const made = await create({ url: 'https://example.com/hook', events: ['transaction.captured'] })
  assert.ok(isWebhookSecret(made.secret ?? ''))
  assert.equal((await read(made.id)).secret, undefined)
  assert.ok(!JSON.stringify(await listed('webhooks')).includes('whsec_'))
  const { webhook } = (await call('POST', `/webhooks/${made.id}/secrets`)) as { webhook: Webhook }
  assert.ok(isWebhookSecret(webhook.secret ?? '') && webhook.secret !== made.secret)
  await call('POST', `/webhooks/${made.id}/secrets`)
  assert.ok(!api.logged().includes('whsec_'))
})

test('URLs that lead inside are refused, and so are events that there are not', async () => {
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

test('a merchant has 20 webhooks at most', async () => {
  const other = await openShop(api)
  const post = () =>
    api.call('POST', `/merchants/${other.merchantId}/webhooks`, {
      key: other.key,
      json: { url: 'https://example.com/' },
    })
  for (let count = 0; count < 20; count += 1) assert.equal((await post()).status, 201)
  assert.equal((await post()).status, 409)
})

test('what happens is told, is in the log, and can be told again', async () => {
  const received: string[] = []
  let status = 500
  const receiver = createServer((request, response) => {
    received.push(`${request.headers['webhook-id']}`)
    response.writeHead(status).end()
  })
  await new Promise<void>(resolve => {
    receiver.listen(0, '127.0.0.1', resolve)
  })
  const { id } = await create()
  const { port } = receiver.address() as AddressInfo
  const url = `http://127.0.0.1:${port}/`
  await api.storage.transaction(tx =>
    tx.query('UPDATE webhook_endpoints SET url = $2 WHERE id = $1', [id, url]),
  )
  const { clock, storage } = api
  const policy = createAddressPolicy([{ address: '127.0.0.1', prefix: 32 }], true)
  const resolve = () => Promise.reject(new Error('unknown here'))
  const deliverer = createWebhookDeliverer({
    ...{ clock, storage, policy, resolve, random: () => 0, log: silentLog },
  })
  const deliver = async () => {
    while (await deliverer.deliverDue());
  }
  const payment = await payAt(api, shop)
  await call('POST', `/transactions/${payment.id}/captures`, { amount: 300 })
  await deliver()
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
  await deliver()
  assert.deepEqual(received, [created?.id, captured?.id])
  await call('POST', `/webhooks/${id}/events/${created?.id}/deliveries`)
  await deliver()
  assert.equal(received[2], created?.id)
  const own = (await call('GET', `/events/${captured?.id}`)) as { event: Event }
  assert.deepEqual(own.event, captured)
  const ofType = (await listed('events', `${filter}&filter[type]=transaction.created`)) as Event[]
  assert.deepEqual(
    ofType.map(event => event.id),
    [created?.id],
  )
  receiver.close()
})
