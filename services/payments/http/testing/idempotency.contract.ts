import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { before, test } from 'node:test'
import { accept } from '../../domain/rejections.ts'
import { requestFingerprint } from '../../storage/idempotency/sealed-answer.ts'
import {
  type ApiUnderTest,
  basic,
  merchantInput,
  openShop,
  payAt,
  sharedApi,
  type TestShop,
} from './api-under-test.ts'

let api: ApiUnderTest
let shop: TestShop
before(async () => {
  api = await sharedApi()
  shop = await openShop(api)
})

const newKey = () => randomBytes(18).toString('base64url')

const codeOf = (json: unknown) => (json as { code: string }).code

test('a repeated request gets the first answer, and another body is rejected', async () => {
  const { id } = await payAt(api, shop)
  const headers = { 'idempotency-key': newKey() }
  const capture = (amount: number, more: object = {}) =>
    api.call('POST', `/transactions/${id}/captures`, { key: shop.key, json: { amount }, headers, ...more })
  const first = await capture(100)
  const second = await capture(100)
  assert.deepEqual([first.status, second.status, second.text], [201, 201, first.text])
  assert.deepEqual(
    [first.headers.get('idempotency-replayed'), second.headers.get('idempotency-replayed')],
    [null, 'true'],
  )
  const other = await capture(101)
  assert.deepEqual([other.status, codeOf(other.json)], [422, 'idempotency_mismatch'])
  // Another app has separate keys, and no access to the transaction.
  const stranger = await openShop(api)
  assert.equal((await capture(100, { key: stranger.key })).status, 404)
})

const lastWarning = () =>
  api
    .logged()
    .split('\n')
    .findLast(line => line.includes('"warn"'))

const maxStorms = 1_000
const storms = Math.min(
  maxStorms,
  Number(process.env['FC_RUNS'] ?? (process.env['SOAK'] === '1' ? maxStorms : 2)),
)
const callers = 100

test(`${callers} requests with one key have one effect, for each of ${storms} keys`, async () => {
  for (let storm = 0; storm < storms; storm += 1) {
    const { id } = await payAt(api, shop)
    const headers = { 'idempotency-key': newKey() }
    const capture = () =>
      api.call('POST', `/transactions/${id}/captures`, { key: shop.key, json: { amount: 100 }, headers })
    const answers = await Promise.all(Array.from({ length: callers }, capture))
    answers.push(await capture())
    for (const { status, headers: found } of answers) {
      const comesBack = status === 409 && found.get('retry-after') === '1'
      if (status !== 201 && !comesBack) assert.fail(`${status} after ${storm} keys: ${lastWarning()}`)
    }
    const given = answers.filter(({ status }) => status === 201)
    assert.equal(new Set(given.map(({ text }) => text)).size, 1)
    assert.equal(answers.at(-1)?.status, 201)
    assert.equal(given.filter(({ headers: found }) => !found.has('idempotency-replayed')).length, 1)
    const { json } = await api.call('GET', `/transactions/${id}`, shop)
    assert.equal((json as { transaction: { capturedAmount: number } }).transaction.capturedAmount, 100)
  }
})

test('a decline is stored, and a rejection leaves the key unused', async () => {
  const declined = await payAt(api, shop, { number: '4100 0000 0200 7004' })
  const headers = { 'idempotency-key': newKey() }
  const charge = (transactionId: string, amount: number) =>
    api.call('POST', `/merchants/${shop.merchantId}/transactions`, {
      key: shop.key,
      json: { transactionId, currency: 'DKK', amount },
      headers,
    })
  assert.equal((await charge(declined.id, 0)).status, 400)
  const first = await charge(declined.id, 5)
  const second = await charge(declined.id, 5)
  assert.deepEqual([first.status, second.status, second.text], [400, 400, first.text])
  assert.equal(second.headers.get('idempotency-replayed'), 'true')
  const path = `/merchants/${shop.merchantId}/transactions?limit=100`
  const recurring = ((await api.call('GET', path, shop)).json as { recurring: boolean }[]).filter(
    one => one.recurring,
  )
  assert.equal(recurring.length, 1)
})

test('each POST accepts an idempotency key, and rejects an invalid one', async () => {
  const headers = { 'idempotency-key': newKey() }
  const make = () => api.call('POST', '/merchants', { key: shop.key, json: merchantInput, headers })
  assert.equal((await make()).text, (await make()).text)
  const bad = { key: shop.key, json: merchantInput, headers: { 'idempotency-key': 'x'.repeat(256) } }
  assert.equal(codeOf((await api.call('POST', '/merchants', bad)).json), 'invalid_idempotency_key')
})

test('the key of a new app is repeated only for an idempotency key that cannot be guessed', async () => {
  const make = (key: string, name = 'till') =>
    api.call('POST', '/apps', { json: { name }, headers: { 'idempotency-key': key } })
  const weak = await make('order-1')
  assert.deepEqual([weak.status, codeOf(weak.json)], [400, 'weak_idempotency_key'])
  const key = newKey()
  const first = await make(key)
  const second = await make(key)
  assert.deepEqual([first.status, second.text], [201, first.text])
  assert.equal((await make(key, 'other')).status, 422)
  const { key: secret } = (first.json as { app: { key: string } }).app
  const stored = await api.storage.transaction(tx =>
    tx.query<{ text: string }>("SELECT encode(body, 'escape') AS text FROM idempotency_keys"),
  )
  assert.ok(stored.every(({ text }) => !text.includes(secret)))
})

test('JSON that differs only in white space is the same request, and other JSON is not', async () => {
  const { id } = await payAt(api, shop)
  const headers = { 'idempotency-key': 'spaces', 'content-type': 'application/json' }
  const send = (body: string) =>
    api.call('POST', `/transactions/${id}/captures`, { key: shop.key, headers, body })
  const first = await send('{"amount":10,"currency":"DKK"}')
  const second = await send('{ "amount" : 10,\n  "currency": "DKK" }\n')
  assert.deepEqual([first.status, second.status, second.text], [201, 201, first.text])
  assert.equal(second.headers.get('idempotency-replayed'), 'true')
  assert.equal((await send('{"amount":11,"currency":"DKK"}')).status, 422)
})

test('an answer that the previous version stored is found by the text of its request', async () => {
  const { id } = await payAt(api, shop)
  const body = '{ "amount": 10 }'
  const key = 'earlier'
  const headers = { 'idempotency-key': key, 'content-type': 'application/json' }
  const path = '/transactions/{transactionId}/captures'
  const fingerprint = requestFingerprint(key, [
    'POST',
    path,
    JSON.stringify({ transactionId: id }),
    '',
    'json',
    body,
  ])
  const request = { scope: `app:${shop.appId}`, key, fingerprint }
  await api.payments.idempotency.runOnce(request, async () =>
    accept({ status: 201, body: '{"transaction":{}}' }),
  )
  const target = `${api.url}/transactions/${id}/captures`
  const again = await fetch(target, {
    method: 'POST',
    headers: { ...headers, authorization: basic(shop.key) },
    body,
  })
  assert.deepEqual([again.status, await again.text()], [201, '{"transaction":{}}'])
})

test('a UUID of version 4 is accepted as the idempotency key of a new app', async () => {
  const headers = { 'idempotency-key': crypto.randomUUID() }
  const [first, second] = [
    await api.call('POST', '/apps', { json: {}, headers }),
    await api.call('POST', '/apps', { json: {}, headers }),
  ]
  assert.deepEqual([first.status, second.text], [201, first.text])
})
