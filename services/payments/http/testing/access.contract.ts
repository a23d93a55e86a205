import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { hashApiKey } from '../../domain/ids.ts'
import { expireAppKeys } from '../../storage/tables/apps.ts'
import type { PaymentsEndpoint } from '../endpoint.ts'
import { paymentsEndpoints } from '../endpoints/endpoints.ts'
import { type ApiUnderTest, basic, openShop, payAt, sharedApi, type TestShop } from './api-under-test.ts'

let api: ApiUnderTest
let shop: TestShop
let ids: Readonly<Record<string, string>>

before(async () => {
  api = await sharedApi()
  shop = await openShop(api)
  const { key, merchantId } = shop
  const disputed = await payAt(api, shop, { number: '4100 0000 0400 2003' })
  await payAt(api, shop, { number: '4100 0000 0400 1005' })
  await api.call('POST', `/transactions/${disputed.id}/captures`, { key, json: { amount: 100 } })
  await api.settle()
  const post = async (path: string, json: object) => (await api.call('POST', path, { key, json })).json
  const first = async (path: string) =>
    ((await api.call('GET', path, { key })).json as { id: string }[])[0]?.id ??
    assert.fail(`${path} is empty`)
  const card = (await post(`/merchants/${merchantId}/cards`, { transactionId: disputed.id })) as {
    card: { id: string }
  }
  const webhook = (await post(`/merchants/${merchantId}/webhooks`, { url: 'https://example.com/' })) as {
    webhook: { id: string }
  }
  await post(`/merchants/${merchantId}/users`, { email: 'joe@example.com' })
  ids = {
    appId: shop.appId,
    merchantId,
    transactionId: disputed.id,
    cardId: card.card.id,
    userId: await first(`/merchants/${merchantId}/users?limit=1`),
    lineId: await first(`/merchants/${merchantId}/lines?limit=1`),
    fraudId: await first(`/frauds?limit=1&filter[merchantId]=${merchantId}`),
    webhookId: webhook.webhook.id,
    eventId: await first(`/merchants/${merchantId}/events?limit=1`),
    disputeId: await first(`/disputes?limit=1&filter[merchantId]=${merchantId}`),
  }
})

/** Returns a valid request to the endpoint, with the ids of the shop's records. */
function requestFor({ method, path, document }: PaymentsEndpoint): readonly [string, object] {
  const query = document.query?.some(({ name }) => name === 'filter[merchantId]')
  const filter = query ? `&filter[merchantId]=${ids['merchantId']}` : ''
  const url = path.replace(/\{(\w+)\}/g, (_, name: string) => ids[name] ?? assert.fail(`no ${name}`))
  const example = JSON.stringify(document.body?.example ?? {})
  const body = example
    .replace(/"transactionId":"[^"]*"/, `"transactionId":"${ids['transactionId']}"`)
    .replace(/"appId":"[^"]*"/, `"appId":"${ids['appId']}"`)
    .replace('10000', '1')
  const content = method === 'GET' || method === 'DELETE' ? {} : { json: JSON.parse(body) }
  return [document.query === undefined ? url : `${url}?limit=1${filter}`, content]
}

const guarded = paymentsEndpoints.filter(({ kind }) => kind !== 'sign-up')
/** Operations that need no access to a merchant: they read the caller, or create a merchant of the caller. */
const ofTheCaller = new Set(['getIdentity', 'createMerchant'])
/** Whether an operation must run after the others, because it deletes a record that they need. */
const isLast = ({ method }: PaymentsEndpoint) => method === 'DELETE'

test('requests without a valid key get 401 without any data', async () => {
  const revoked = await openShop(api)
  await api.storage.transaction(tx => expireAppKeys(tx, revoked.appId, api.clock.nowMs()))
  const doors: Readonly<Record<string, Record<string, string>>> = {
    'no key': {},
    'a wrong key': { authorization: basic('tollway_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA') },
    'a revoked key': { authorization: basic(revoked.key) },
    'the hash of the key': { authorization: basic(hashApiKey(shop.key)) },
    'the public key': { authorization: basic(shop.publicKey) },
    'a user name': { authorization: `Basic ${btoa(`user:${shop.key}`)}` },
    'the key as user name': { authorization: `Basic ${btoa(`${shop.key}:`)}` },
    'a bearer token': { authorization: `Bearer ${shop.key}` },
    'an empty key': { authorization: basic('') },
    'no base64': { authorization: 'Basic §§§' },
    'a very long key': { authorization: basic('x'.repeat(5_000)) },
  }
  for (const endpoint of guarded) {
    const [path, content] = requestFor(endpoint)
    for (const [door, headers] of Object.entries(doors)) {
      if (door === 'no base64') continue
      const { status, headers: answer, text } = await api.call(endpoint.method, path, { ...content, headers })
      assert.equal(status, 401, `${endpoint.method} ${path} with ${door}: ${text}`)
      assert.match(answer.get('www-authenticate') ?? '', /^Basic /)
    }
  }
})

test('records of other apps are not found, and not changed', async () => {
  const other = await openShop(api)
  const own = await payAt(api, other)
  for (const endpoint of guarded.filter(({ document }) => !ofTheCaller.has(document.operationId))) {
    const [path, content] = requestFor(endpoint)
    const { status, text } = await api.call(endpoint.method, path, { ...content, key: other.key })
    assert.equal(status, 404, `${endpoint.method} ${path}: ${text}`)
  }
  // Records of another merchant in the body are rejected as unknown too.
  const foreign = [
    [`/merchants/${other.merchantId}/cards`, { transactionId: ids['transactionId'] }],
    [`/merchants/${other.merchantId}/transactions`, { cardId: ids['cardId'], currency: 'DKK', amount: 1 }],
  ] as const
  for (const [path, json] of foreign) {
    const { status, text } = await api.call('POST', path, { key: other.key, json })
    assert.ok(status === 400 && text.includes('"mismatch"'), `${path}: ${text}`)
  }
  const before = `limit=1&before=${ids['transactionId']}`
  const cursor = await api.call('GET', `/merchants/${other.merchantId}/transactions?${before}`, other)
  assert.equal(cursor.status, 400)
  assert.ok(own.id !== ids['transactionId'])
})

test('the owner may call every endpoint', async () => {
  for (const endpoint of [...guarded].sort((a, b) => Number(isLast(a)) - Number(isLast(b)))) {
    const [path, content] = requestFor(endpoint)
    const { status, text } = await api.call(endpoint.method, path, { ...content, key: shop.key })
    // 409, because the app is the last one of the merchant.
    const isExpected = endpoint.document.operationId === 'revokeApp' ? status === 409 : status < 300
    assert.ok(isExpected, `${endpoint.method} ${path}: ${status} ${text}`)
  }
})

test('every body is rejected with fields that only the service sets', async () => {
  const hostile = [
    'id',
    'key',
    'merchantId',
    'created',
    'closed',
    'capturedAmount',
    'successful',
    'status',
    '__proto__',
  ]
  const bodies = paymentsEndpoints.filter(({ document }) => document.body !== undefined)
  const { key } = await openShop(api)
  for (const endpoint of bodies) {
    for (const field of hostile) {
      const body = `{"${field}":"x"}`
      const [path] = requestFor(endpoint)
      const headers = { 'content-type': 'application/json' }
      const { status, text } = await api.call(endpoint.method, path, { key, body, headers })
      assert.equal(status, 400, `${endpoint.method} ${path} ${body}: ${text}`)
      assert.match(text, new RegExp(`"field":"${field}","code":"(unknown|immutable)"`), `${path} ${body}`)
    }
  }
})
