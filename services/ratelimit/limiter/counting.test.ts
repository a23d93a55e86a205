import assert from 'node:assert/strict'
import { test } from 'node:test'
import { CountersError, type Hit, maxCount } from '../counters/counters.ts'
import { MalformedKeyError } from '../counters/memcached/request.ts'
import { createMemoryCounters } from '../counters/memory.ts'
import { type CountingOptions, createCounting, type FailureMode, overLimitCached } from './counting.ts'
import { OverLimitCache } from './over-limit-cache.ts'

const batch: readonly Hit[] = [{ key: 'k_60', hits: 2, expirySeconds: 60, limit: 10 }]
const clock = { nowMs: () => 0, monotonicMs: () => 0 }

type More = Partial<Pick<CountingOptions, 'cache' | 'stopWhenOver' | 'localShare' | 'counters'>>

function open(mode: FailureMode, more: More = {}) {
  const outcomes: string[] = []
  const counting = createCounting({
    counters: more.counters ?? { add: () => Promise.reject(new CountersError('away')) },
    cache: more.cache,
    stopWhenOver: more.stopWhenOver ?? false,
    mode,
    local: createMemoryCounters({ clock }),
    localShare: more.localShare ?? 1,
    onSuccess: () => outcomes.push('counted'),
    onFailure: ({ message }) => outcomes.push(message),
  })
  return { counting, outcomes }
}

test('the failure mode decides between an error and a decision without the backend', async () => {
  await assert.rejects(async () => open('error').counting.add(batch, 0), {
    name: 'CountersError',
    message: 'away',
  })
  assert.deepEqual(await open('allow').counting.add(batch, 0), [0])
  assert.deepEqual(await open('deny').counting.add(batch, 0), [maxCount])
})

test('each failure is reported once, in every mode', async () => {
  for (const mode of ['error', 'allow', 'deny', 'local'] as const) {
    const { counting, outcomes } = open(mode)
    await Promise.allSettled([(async () => counting.add(batch, 0))()])
    assert.deepEqual(outcomes, ['away'], mode)
  }
})

test('a counted call is reported', async () => {
  const { counting, outcomes } = open('error', { counters: { add: () => Promise.resolve([1]) } })
  await counting.add(batch, 0)
  assert.deepEqual(outcomes, ['counted'])
})

test('in the mode local a process admits its share of the limit', async () => {
  const { counting } = open('local', { localShare: 0.25 })
  assert.deepEqual(await counting.add(batch, 0), [8])
  assert.deepEqual(await counting.add(batch, 0), [16])
})

const hit = (key: string): Hit => ({ key, hits: 1, expirySeconds: 60, limit: 1 })

/** Counts in memory like a remote backend, and records the hits that it is asked for. */
function askedBackend() {
  const memory = createMemoryCounters({ clock })
  const asked: string[] = []
  const add = (batch: readonly Hit[]) => {
    asked.push(batch.map(({ key, hits }) => `${key}+${hits}`).join(' '))
    return Promise.resolve(memory.add(batch))
  }
  return { counters: { add }, asked }
}

test('keys that are over their limit are not sent to the backend again', async () => {
  const { counters, asked } = askedBackend()
  const { counting } = open('error', { counters, cache: new OverLimitCache(1) })
  assert.deepEqual(await counting.add([hit('a'), hit('b')], 0), [1, 1])
  assert.deepEqual(await counting.add([hit('a')], 0), [2])
  assert.deepEqual(await counting.add([hit('a')], 0), [overLimitCached])
  assert.deepEqual(await counting.add([hit('a'), hit('b'), hit('a')], 0), [
    overLimitCached,
    2,
    overLimitCached,
  ])
  assert.deepEqual(asked, ['a+1 b+1', 'a+1', 'b+1'])
})

test('a leased key is cached as over its limit only if not even one hit is left', async () => {
  const cases = [
    { hits: 10, value: 19, cached: false },
    { hits: 10, value: 20, cached: true },
    { hits: 1, value: 10, cached: false },
    { hits: 1, value: 11, cached: true },
    { hits: 0, value: 10, cached: false },
    { hits: 0, value: 11, cached: true },
  ]
  for (const { hits, value, cached } of cases) {
    const cache = new OverLimitCache(1)
    const { counting } = open('error', { counters: { add: () => [value] }, cache })
    await counting.add([{ ...hit('a'), hits, limit: 10, leased: true }], 0)
    assert.equal(cache.has('a', 0), cached, `${hits} hits, then ${value}`)
  }
})

test('a rejection that arrives after an operator changed its counter is not cached', async () => {
  const reply = Promise.withResolvers<readonly number[]>()
  const cache = new OverLimitCache(1)
  const { counting } = open('error', { counters: { add: () => reply.promise }, cache })
  const decision = counting.add([hit('a')], 0)
  cache.delete('a')
  reply.resolve([2])
  assert.deepEqual(await decision, [2])
  assert.equal(cache.counts.entryCount, 0)
})

test('with stopWhenOver, a cached key makes the other keys of the call only be read', async () => {
  const { counters, asked } = askedBackend()
  const { counting } = open('error', { counters, cache: new OverLimitCache(1), stopWhenOver: true })
  await counting.add([{ ...hit('a'), hits: 2 }], 0)
  assert.deepEqual(await counting.add([hit('a'), hit('b')], 0), [overLimitCached, 0])
  assert.deepEqual(asked, ['a+2', 'b+0'])
})

test('decisions without the backend are not cached', async () => {
  const cache = new OverLimitCache(1)
  const { counting } = open('deny', { cache })
  assert.deepEqual(await counting.add([hit('a')], 0), [maxCount])
  assert.equal(cache.counts.entryCount, 0)
})

test('an illegal key is an error in every mode, and not a failure of the backend', async () => {
  const malformed = { add: () => Promise.reject(new MalformedKeyError()) }
  for (const mode of ['error', 'allow', 'deny', 'local'] as const) {
    const { counting, outcomes } = open(mode, { counters: malformed })
    await assert.rejects(async () => counting.add(batch, 0), { message: /^malformed: key is too long/ })
    assert.deepEqual(outcomes, [])
  }
})
