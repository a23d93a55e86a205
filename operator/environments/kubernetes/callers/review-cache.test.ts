import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createReviewCache } from './review-cache.ts'

const limits = { keepMs: 1_000, maxEntries: 2, maxRunning: 1 }

function open() {
  let nowMs = 0
  const clock = { monotonicMs: () => nowMs, nowMs: () => nowMs }
  const cache = createReviewCache<number>(clock as never, limits, () => new Error('too many'))
  let asked = 0
  const get = (key: string) => cache.get(key, async () => ++asked)
  const pass = (ms: number) => {
    nowMs += ms
  }
  return { cache, get, pass }
}

test('a review is reused until it expires', async () => {
  const { get, pass } = open()
  assert.equal(await get('a'), 1)
  pass(999)
  assert.equal(await get('a'), 1)
  pass(1)
  assert.equal(await get('a'), 2)
})

test('the oldest review is dropped for a new one', async () => {
  const { get } = open()
  for (const key of ['a', 'b', 'c']) await get(key)
  assert.equal(await get('c'), 3)
  assert.equal(await get('a'), 4)
})

test('an error is not cached', async () => {
  const { cache, get } = open()
  await assert.rejects(cache.get('a', () => Promise.reject(new Error('down'))))
  assert.equal(await get('a'), 1)
})

test('no more reviews run at a time than allowed', async () => {
  const { cache, get } = open()
  const { promise, resolve } = Promise.withResolvers<number>()
  const first = cache.get('a', () => promise)
  await assert.rejects(get('b'), /too many/)
  resolve(7)
  assert.equal(await first, 7)
  assert.equal(await get('b'), 1)
})
