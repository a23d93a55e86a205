import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { maxShownTrail } from '../../domain/present.ts'
import { verifyBooks } from '../../operations/verify-books.ts'
import { type ApiUnderTest, openShop, payAt, sharedApi, type TestShop } from './api-under-test.ts'

type Fields = Readonly<Record<string, unknown>> & { readonly id: string }
type Kind = 'captures' | 'refunds' | 'voids'

let api: ApiUnderTest
let shop: TestShop
let stranger: TestShop
before(async () => {
  api = await sharedApi()
  shop = await openShop(api)
  stranger = await openShop(api)
})

const change = (id: string, kind: Kind, amount = 1) =>
  api.call('POST', `/transactions/${id}/${kind}`, { key: shop.key, json: { amount } })

async function get(path: string): Promise<unknown> {
  const { status, json, text } = await api.call('GET', path, shop)
  assert.equal(status, 200, text)
  return json
}

async function read(id: string) {
  const { transaction } = (await get(`/transactions/${id}`)) as { transaction: Fields }
  return transaction as unknown as { readonly trail: readonly Fields[]; readonly trailLength: number }
}

async function setLimits(limit: number): Promise<void> {
  Object.assign(api.payments.trailLimits, { captures: limit, refunds: limit, voids: limit })
}

test('captures, refunds and voids of a transaction are limited, and the answer names the limit', async t => {
  t.after(() => setLimits(100))
  setLimits(2)
  const { id } = await payAt(api, shop)
  for (const kind of ['captures', 'refunds', 'voids'] as const) {
    const answers = []
    for (let count = 0; count < 3; count += 1)
      answers.push(await change(id, kind, kind === 'captures' ? 10 : 1))
    assert.deepEqual(
      answers.map(({ status }) => status),
      [201, 201, 400],
    )
    assert.deepEqual(answers[2]?.json, [
      { field: 'amount', code: 'too_many', message: `the transaction has 2 ${kind}; at most 2 are allowed` },
    ])
  }
  assert.equal((await read(id)).trail.length, 6)
})

test('simultaneous captures do not exceed the limit together', async t => {
  t.after(() => setLimits(100))
  setLimits(3)
  const { id } = await payAt(api, shop)
  const answers = await Promise.all(Array.from({ length: 8 }, () => change(id, 'captures')))
  assert.equal(answers.filter(({ status }) => status === 201).length, 3)
})

test('answers and events have a maximum size, and a long trail has pages', async t => {
  t.after(() => setLimits(100))
  setLimits(maxShownTrail + 20)
  const { id } = await payAt(api, shop)
  for (let amount = 0; amount < maxShownTrail + 20; amount += 1) {
    assert.equal((await change(id, 'captures')).status, 201)
  }
  const whole = (await get(`/transactions/${id}/trail?limit=100`)) as readonly Fields[]
  const rest = (await get(
    `/transactions/${id}/trail?limit=100&before=${whole.at(-1)?.id}`,
  )) as readonly Fields[]
  assert.deepEqual([whole.length, rest.length], [100, 20])
  const shown = await read(id)
  assert.deepEqual(shown.trail, whole.toReversed())
  assert.equal(shown.trailLength, maxShownTrail + 20)
  const [listed] = (await get(`/merchants/${shop.merchantId}/transactions?limit=1`)) as readonly Fields[]
  assert.deepEqual(listed?.['trail'], shown.trail)
  const [event] = (await get(`/merchants/${shop.merchantId}/events?limit=1`)) as readonly Fields[]
  assert.ok(event)
  const { transaction, change: told } = event['data'] as Record<'transaction' | 'change', Fields>
  assert.deepEqual(told, whole[0])
  assert.deepEqual(transaction['trail'], shown.trail.slice(-10))
  assert.ok(JSON.stringify(event).length < 8_000, `${JSON.stringify(event).length} characters`)
  // A refund is right although its fee depends on trail entries that were not read.
  assert.equal((await change(id, 'refunds', 120)).status, 201)
  assert.deepEqual((await verifyBooks(api.storage)).findings, [])
})

test('an entry has its kind, and a trail is readable only for apps of its merchant', async () => {
  const { id } = await payAt(api, shop)
  for (const kind of ['captures', 'refunds', 'voids'] as const) await change(id, kind)
  const entries = (await get(`/transactions/${id}/trail?limit=9&sort[created]=1`)) as readonly Fields[]
  assert.deepEqual(
    entries.map(({ kind }) => kind),
    ['capture', 'refund', 'void'],
  )
  assert.equal((await api.call('GET', `/transactions/${id}/trail?limit=9`, stranger)).status, 404)
  const cursor = await api.call('GET', `/transactions/${id}/trail?limit=9&before=${id}`, shop)
  assert.equal(cursor.status, 400)
  const lines = (await get(`/merchants/${shop.merchantId}/lines?limit=2`)) as readonly Fields[]
  assert.deepEqual(
    lines.map(({ kind }) => kind),
    ['refund', 'capture'],
  )
})
