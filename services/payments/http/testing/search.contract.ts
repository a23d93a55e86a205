import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { type ApiUnderTest, openShop, payAt, sharedApi, startMs, type TestShop } from './api-under-test.ts'

interface Found {
  readonly id: string
}

let api: ApiUnderTest
let shop: TestShop
before(async () => {
  api = await sharedApi()
  shop = await openShop(api)
})

const day = (ms: number) => new Date(ms).toISOString().slice(0, 10)
const range = `filter[created][from]=${day(startMs - 86_400_000)}`

async function find(query: string, key = shop.key): Promise<readonly string[]> {
  const path = `/merchants/${shop.merchantId}/transactions?limit=100&${query}`
  const { status, text, json } = await api.call('GET', path, { key })
  assert.equal(status, 200, text)
  return (json as readonly Found[]).map(({ id }) => id)
}

test('transactions are found by their custom data, status and time', async () => {
  const { id: first } = await payAt(api, shop, { amount: 500n })
  const json = { transactionId: first, amount: 700, currency: 'DKK', custom: { order: 'A-17', items: 2 } }
  const path = `/merchants/${shop.merchantId}/transactions`
  const made = await api.call('POST', path, { key: shop.key, json })
  const second = (made.json as { transaction: Found }).transaction.id
  await api.call('POST', `/transactions/${first}/captures`, { key: shop.key, json: { amount: 200 } })
  const table: readonly (readonly [string, readonly string[]])[] = [
    ['', [second, first]],
    [range, [second, first]],
    [`${range}&sort[created]=asc`, [first, second]],
    [`${range}&filter[custom][order]=A-17&filter[custom][items]=2`, [second]],
    [`${range}&filter[custom][order]=A-18`, []],
    [`${range}&filter[status]=captured`, [first]],
    [`${range}&filter[status]=pending&before=${second}`, [first]],
    [`${range}&filter[status]=declined`, []],
    ['filter[reference]=A-17', []],
    [`filter[created][from]=${day(startMs + 9 * 86_400_000)}`, []],
  ]
  for (const [query, ids] of table) assert.deepEqual(await find(query), ids, query)
})

test('lines are found by their time, in both orders, from a cursor and in an export', async () => {
  const own = await openShop(api)
  const { id } = await payAt(api, own, { amount: 900n })
  const path = `/merchants/${own.merchantId}`
  const times: number[] = []
  for (const amount of [100, 200, 300]) {
    times.push(api.clock.nowMs())
    await api.call('POST', `/transactions/${id}/captures`, { key: own.key, json: { amount } })
    api.clock.elapse(60_000)
  }
  const at = (index: number) => new Date(times[index] ?? 0).toISOString()
  const amounts = async (query: string) => {
    const { status, text, json } = await api.call('GET', `${path}/lines?${query}`, own)
    assert.equal(status, 200, text)
    return (json as { id: string; amount: { amount: number } }[]).map(line => line.amount.amount)
  }
  const second = `filter[created][from]=${at(1)}`
  assert.deepEqual(await amounts(`limit=9&${second}`), [300, 200])
  assert.deepEqual(await amounts(`limit=9&${second}&sort[created]=asc`), [200, 300])
  assert.deepEqual(
    await amounts(`limit=9&filter[created][from]=${at(0)}&filter[created][to]=${at(1)}`),
    [100],
  )
  assert.deepEqual(await amounts(`limit=9&${second}&filter[transactionId]=${own.merchantId}`), [])
  const newest = await api.call('GET', `${path}/lines?limit=1&${second}`, own)
  const [{ id: cursor } = { id: '' }] = newest.json as { id: string }[]
  assert.deepEqual(await amounts(`limit=9&${second}&before=${cursor}`), [200])
  const { text } = await api.call('GET', `${path}/exports/lines?limit=9&${second}`, own)
  assert.equal(text.split('\r\n').length, 4)
})

test('a search does not find transactions of merchants of other apps', async () => {
  const stranger = await openShop(api)
  const path = `/merchants/${shop.merchantId}/transactions?limit=1&${range}`
  const { status } = await api.call('GET', path, { key: stranger.key })
  assert.equal(status, 404)
})

test('an invalid search is rejected with the field', async () => {
  const path = `/merchants/${shop.merchantId}/transactions?limit=1&filter[status]=paid`
  const { status, json } = await api.call('GET', path, { key: shop.key })
  const fields = (json as readonly { field: string; code: string }[]).map(
    ({ field, code }) => `${field} ${code}`,
  )
  assert.deepEqual([status, fields], [400, ['filter.status unsupported']])
})
