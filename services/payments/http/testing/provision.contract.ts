import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { after, before, test } from 'node:test'
import { silentLog } from '@tollway/chassis/log/log.ts'
import { newWebhookSecret } from '@tollway/chassis/webhooks/webhook-secret.ts'
import { hashApiKey, newApiKey } from '../../domain/ids.ts'
import { storeResult, verifyBooks } from '../../operations/verify-books.ts'
import { createProvisionServer } from '../servers/provision-server.ts'
import type { JsonServer } from '../servers/server.ts'
import { type ApiUnderTest, merchantInput, openShop, payAt, sharedApi } from './api-under-test.ts'

let token = 'a token of the operator'.replaceAll(' ', '-')

let api: ApiUnderTest
let server: JsonServer
let url = ''
before(async () => {
  api = await sharedApi()
  const { payments, clock } = api
  server = createProvisionServer({
    payments,
    clock,
    log: silentLog,
    randomBytes,
    onAnswer: () => {},
    token: () => token,
  })
  url = `http://127.0.0.1:${await server.listen({ host: '127.0.0.1', port: 0 })}`
})
after(() => server.close(100))

async function provision(
  method: 'PUT' | 'DELETE',
  uid: string,
  json?: object,
  authorization = `Bearer ${token}`,
): Promise<{ readonly status: number; readonly json: Record<string, string> }> {
  const response = await fetch(`${url}/provision/merchants/${uid}`, {
    method,
    headers: { authorization, ...(json && { 'content-type': 'application/json' }) },
    ...(json && { body: JSON.stringify(json) }),
  })
  const text = await response.text()
  return { status: response.status, json: text === '' ? {} : JSON.parse(text) }
}

const inputWith = (key: string, more: object = {}) => ({
  merchant: merchantInput,
  app: { name: 'till' },
  keyHash: hashApiKey(key),
  ...more,
})

const newUid = () => randomBytes(8).toString('hex')
const newKey = () => newApiKey(randomBytes)
const statusWith = async (key: string) => (await api.call('GET', '/me', { key })).status

test('a resource has one merchant after repeated and simultaneous requests', async () => {
  const [uid, key] = [newUid(), newKey()]
  const input = inputWith(key, { users: ['joe@example.com'] })
  const answers = await Promise.all(Array.from({ length: 8 }, () => provision('PUT', uid, input)))
  for (const answer of answers) assert.deepEqual(answer, { ...answers[0], status: 200 })
  const { merchantId = '', publicKey, appId = '' } = answers[0]?.json ?? {}
  const { json } = await api.call('GET', `/identities/${appId}/merchants?limit=10`, { key })
  assert.deepEqual(
    (json as { id: string; key: string }[]).map(one => [one.id, one.key]),
    [[merchantId, publicKey]],
  )
  const users = await api.call('GET', `/merchants/${merchantId}/users?limit=10`, { key })
  assert.equal((users.json as unknown[]).length, 1)
})

test('a live merchant is rejected with the reason while no processor is configured', async () => {
  const merchant = { ...merchantInput, test: false }
  const { status, json } = await provision('PUT', newUid(), inputWith(newKey(), { merchant }))
  const text = JSON.stringify(json)
  assert.equal(status, 400, text)
  assert.match(text, /merchant\.test.*no card processor is configured/)
})

test('a rotated key stays valid until a request sets its expiry', async () => {
  const [uid, first, second] = [newUid(), newKey(), newKey()]
  await provision('PUT', uid, inputWith(first))
  await provision('PUT', uid, inputWith(second))
  assert.deepEqual([await statusWith(first), await statusWith(second)], [200, 200])
  await provision('PUT', uid, inputWith(second, { otherKeysExpireInMs: 60_000 }))
  assert.deepEqual([await statusWith(first), await statusWith(second)], [200, 200])
  api.clock.elapse(60_000)
  assert.deepEqual([await statusWith(first), await statusWith(second)], [401, 200])
  assert.equal((await provision('PUT', uid, inputWith(first))).json['code'], 'conflict')
  const another = await provision('PUT', newUid(), inputWith(second))
  assert.deepEqual([another.status, another.json['code']], [409, 'conflict'])
})

test('changed fields are applied, and a change of a fixed field is rejected', async () => {
  const [uid, key] = [newUid(), newKey()]
  const { merchantId } = (await provision('PUT', uid, inputWith(key))).json
  const renamed = { ...merchantInput, name: 'Coffee', descriptor: 'COFFEE' }
  assert.equal((await provision('PUT', uid, inputWith(key, { merchant: renamed }))).status, 200)
  const { json } = await api.call('GET', `/merchants/${merchantId}`, { key })
  assert.equal((json as { merchant: { descriptor: string } }).merchant.descriptor, 'COFFEE')
  const other = { ...merchantInput, currency: 'EUR', company: { country: 'SE' } }
  const rejected = await provision('PUT', uid, inputWith(key, { merchant: other }))
  assert.deepEqual(
    (rejected.json as unknown as { field: string; code: string }[]).map(({ field, code }) => [field, code]),
    [
      ['merchant.company.country', 'immutable'],
      ['merchant.currency', 'immutable'],
    ],
  )
})

test('the webhooks of a merchant become those of the resource', async () => {
  const [uid, key] = [newUid(), newKey()]
  const hook = (path: string, events: string[] = []) => ({
    url: `https://example.com/${path}`,
    events,
    secrets: [newWebhookSecret(randomBytes)],
  })
  const active = async (merchantId: string) => {
    const rows = await api.storage.transaction(tx =>
      tx.query<{ url: string }>(
        'SELECT url FROM webhook_endpoints WHERE merchant_id = $1 AND disabled IS NULL ORDER BY url',
        [merchantId],
      ),
    )
    return rows.map(row => new URL(row.url).pathname)
  }
  const put = (webhooks: object[]) => provision('PUT', uid, inputWith(key, { webhooks }))
  const { merchantId = '' } = (await put([hook('a'), hook('b')])).json
  assert.deepEqual(await active(merchantId), ['/a', '/b'])
  await put([hook('b', ['transaction.captured']), hook('c')])
  assert.deepEqual(await active(merchantId), ['/b', '/c'])
  await put([hook('a')])
  assert.deepEqual(await active(merchantId), ['/a'])
  const rejected = await put([{ ...hook('d', ['nothing']), secrets: [] }])
  assert.deepEqual(
    (rejected.json as unknown as { field: string }[]).map(({ field }) => field),
    ['webhooks.0.events.0', 'webhooks.0.secrets'],
  )
  const weak = await put([{ ...hook('d'), secrets: [newWebhookSecret(randomBytes), 'hunter2'] }])
  const [fault] = weak.json as unknown as { field: string; message: string }[]
  assert.equal(fault?.field, 'webhooks.0.secrets.1')
  assert.match(
    fault.message,
    /^does not begin with "whsec_"; allowed is "whsec_" and 24 to 64 bytes in base64/,
  )
  assert.deepEqual(await active(merchantId), ['/a'])
})

test('a closed merchant keeps its data, and accepts no payment', async () => {
  const [uid, key] = [newUid(), newKey()]
  const { merchantId } = (await provision('PUT', uid, inputWith(key))).json
  assert.equal((await provision('DELETE', uid)).status, 204)
  assert.equal((await provision('DELETE', uid)).status, 204)
  assert.equal(await statusWith(key), 401)
  const again = await provision('PUT', uid, inputWith(newKey()))
  assert.deepEqual([again.status, again.json['code']], [409, 'merchant_closed'])
  const [row] = await api.storage.transaction(tx =>
    tx.query<{ closed: Date | null }>('SELECT closed FROM merchants WHERE id = $1', [merchantId ?? '']),
  )
  assert.ok(row?.closed instanceof Date)
  assert.equal((await provision('DELETE', newUid())).status, 404)
})

test('a merchant is adopted with one of its keys, and by one resource only', async () => {
  const shop = await openShop(api)
  const adopt = (keyHash: string | null, merchantId = shop.merchantId) => ({ adopt: { merchantId, keyHash } })
  const other = await openShop(api)
  for (const keyHash of [null, hashApiKey(other.key), hashApiKey('nobody')]) {
    const { status, json } = await provision('PUT', newUid(), inputWith(newKey(), adopt(keyHash)))
    assert.deepEqual([status, (json as unknown as { field: string }[])[0]?.field], [400, 'adopt.merchantId'])
  }
  const [uid, key] = [newUid(), newKey()]
  const own = hashApiKey(shop.key)
  const taken = await provision('PUT', uid, inputWith(key, adopt(own)))
  assert.deepEqual([taken.status, taken.json['merchantId']], [200, shop.merchantId])
  assert.deepEqual(await provision('PUT', uid, inputWith(key, adopt(null))), taken)
  assert.equal((await api.call('GET', `/merchants/${shop.merchantId}`, { key })).status, 200)
  assert.equal((await api.call('GET', `/merchants/${shop.merchantId}`, shop)).status, 200)
  const next = await provision('PUT', newUid(), inputWith(newKey(), adopt(hashApiKey(key))))
  assert.deepEqual([next.status, next.json['merchantId']], [200, shop.merchantId])
  assert.notEqual(next.json['appId'], taken.json['appId'])
  // The previous resource no longer has a merchant: it gets no other one, and its deletion closes none.
  for (const more of [{}, adopt(own)]) {
    const before = await provision('PUT', uid, inputWith(key, more))
    assert.deepEqual([before.status, before.json['code']], [409, 'merchant_closed'])
  }
  assert.equal((await provision('DELETE', uid)).status, 404)
  assert.equal((await api.call('GET', `/merchants/${shop.merchantId}`, shop)).status, 200)
})

async function readBooks(json: unknown, authorization = `Bearer ${token}`) {
  const headers = { authorization, 'content-type': 'application/json' }
  const response = await fetch(`${url}/provision/books`, {
    method: 'POST',
    headers,
    body: JSON.stringify(json),
  })
  return { status: response.status, json: (await response.json()) as Record<string, unknown> }
}

test('the balances of merchants of resources are read, with the last proof of the books', async () => {
  const [uid, key] = [newUid(), newKey()]
  const { merchantId, publicKey = '' } = (await provision('PUT', uid, inputWith(key))).json
  await payAt(api, { publicKey }, { amount: 12_345n, currency: 'USD' })
  await storeResult(api.storage, await verifyBooks(api.storage), { beganMs: 0, endedMs: 1_000 })
  const { status, json } = await readBooks({ uids: [uid, 'unknown'] })
  assert.equal(status, 200, JSON.stringify(json))
  assert.deepEqual(json['merchants'], {
    [uid]: {
      merchantId,
      available: { currency: 'DKK', amount: '0', exponent: 2 },
      pending: [{ currency: 'USD', amount: '12345', exponent: 2 }],
    },
  })
  const { records, ...verification } = json['verification'] as Record<string, unknown>
  const times = { began: '1970-01-01T00:00:00.000Z', ended: '1970-01-01T00:00:01.000Z' }
  assert.deepEqual(verification, { ...times, findings: 0, shown: [] })
  assert.ok(((records as Record<string, number>)['transactions'] ?? 0) > 0)
})

test('books are read with the token alone, and an error names the field', async () => {
  for (const authorization of ['', 'Bearer x', `Basic ${btoa(`:${token}`)}`]) {
    assert.equal((await readBooks({ uids: [] }, authorization)).status, 401, authorization)
  }
  const wrong: readonly [unknown, string][] = [
    [{}, 'uids'],
    [{ uids: 'a' }, 'uids'],
    [{ uids: [1] }, 'uids.0'],
    [{ uids: [], all: true }, 'all'],
    [{ uids: Array.from({ length: 101 }, () => 'a') }, 'uids'],
  ]
  for (const [body, field] of wrong) {
    const { status, json } = await readBooks(body)
    assert.equal(status, 400, JSON.stringify(body))
    assert.equal((json as unknown as { field: string }[])[0]?.field, field)
  }
})

test('a changed token applies to the next request', async () => {
  const before = token
  const input = inputWith(newKey())
  token = 'another-token'
  assert.equal((await provision('PUT', newUid(), input, `Bearer ${before}`)).status, 401)
  assert.equal((await provision('PUT', newUid(), input, `Bearer ${token}`)).status, 200)
  token = before
})

test('other tokens get 401, and each invalid field is rejected', async () => {
  const input = inputWith(newKey())
  for (const authorization of ['', 'Bearer x', `Basic ${btoa(`:${token}`)}`, `Bearer ${token}x`]) {
    assert.equal((await provision('PUT', newUid(), input, authorization)).status, 401, authorization)
  }
  const wrong = { keyHash: 'abc', users: ['joe'], id: 1, merchant: { ...merchantInput, currency: 'JPY' } }
  const { status, json } = await provision('PUT', newUid(), wrong)
  assert.equal(status, 400)
  assert.deepEqual(
    (json as unknown as { field: string }[]).map(({ field }) => field),
    ['keyHash', 'users.0', 'id', 'merchant.currency'],
  )
  assert.equal((await provision('PUT', 'a%2Fb', input)).status, 404)
  assert.equal((await provision('PUT', 'x'.repeat(129), input)).status, 404)
})
