import assert from 'node:assert/strict'
import { test } from 'node:test'
import { cacheBalances } from '../kinds/merchant/merchant-books.ts'
import { serveApi } from '../testing/serve-api.ts'
import type { MerchantList } from './shapes.ts'

type Ask = Awaited<ReturnType<typeof serveApi>>['ask']

const listOf = async (ask: Ask, query = '') => {
  const { status, body } = await ask(`/merchants${query}`)
  assert.equal(status, 200)
  return body as unknown as MerchantList
}

const ofCafe = {
  merchant: 'shop/cafe',
  record: 'merchant 1',
  message: 'its balance is 2; its lines make it 1',
}
const ofOther = { merchant: '', record: 'merchant 2', message: 'its balance is 4; its lines make it 3' }

test('a merchant has its balances, and the list the result of the last proof of the books', async t => {
  const { ask } = await serveApi(t)
  const { items, booksProblem, lastVerify } = await listOf(ask)
  assert.deepEqual(items[0]?.balances, {
    available: { currency: 'DKK', amount: '49165', exponent: 2 },
    pending: [{ currency: 'EUR', amount: '5', exponent: 2 }],
  })
  assert.equal(booksProblem, '')
  const { shown, ...result } = lastVerify ?? {}
  const times = { beganMs: 1_000, endedMs: 2_500 }
  assert.deepEqual(result, { ...times, passed: false, findings: 2, records: { merchants: 2 } })
  assert.deepEqual(shown, [ofCafe, ofOther])
})

test('a list of one namespace has no findings of merchants elsewhere', async t => {
  const { ask } = await serveApi(t)
  const ofShop = await listOf(ask, '?namespace=shop')
  assert.deepEqual(ofShop.lastVerify?.shown, [ofCafe])
  assert.equal(ofShop.lastVerify?.findings, 2)
  const ofBank = await listOf(ask, '?namespace=bank')
  assert.deepEqual(ofBank.items, [])
  assert.deepEqual(ofBank.lastVerify?.shown, [])
})

test('merchants are listed while the payments service does not answer, with the cause', async t => {
  const books = cacheBalances(undefined, { monotonicMs: () => 0 })
  const { ask } = await serveApi(t, { books })
  const { items, booksProblem, lastVerify } = await listOf(ask)
  assert.equal(items[0]?.name, 'cafe')
  assert.equal(items[0]?.balances, undefined)
  assert.equal(lastVerify, null)
  assert.equal(booksProblem, 'no payments service runs')
})

test('equal requests share an answer of the payments service for five seconds', async () => {
  let nowMs = 0
  const asked: number[] = []
  const money = { currency: 'DKK', amount: '1', exponent: 2 }
  const reader = {
    async readBooks(uids: readonly string[]) {
      asked.push(uids.length)
      return {
        balances: new Map(uids.map(uid => [uid, { available: money, pending: [] }])),
        lastVerify: undefined,
      }
    },
  }
  const read = cacheBalances(reader, { monotonicMs: () => nowMs })
  const many = Array.from({ length: 250 }, (_, index) => `uid-${index}`)
  const [one, same] = await Promise.all([read(many), read(many)])
  assert.equal(one, same)
  assert.equal(one.balances.size, 250)
  assert.deepEqual(asked, [100, 100, 50])
  nowMs = 4_999
  await read(many)
  assert.equal(asked.length, 3)
  nowMs = 5_000
  await read(many)
  assert.equal(asked.length, 6)
  await read([])
  assert.deepEqual(asked.slice(6), [0])
})
