import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { assert as assertProperty, asyncProperty, property } from 'fast-check'
import {
  assertEqualsOracle,
  checkOf,
  leaseTrace,
  oracles,
  runLeaseTrace,
  type TracedAlgorithm,
  trace,
} from '../testing/traces.ts'
import type { LimitCheck, LimitOutcome } from './limit-check.ts'
import { createMemoryAdmission } from './memory-admission.ts'
import { TokenBucket } from './token-bucket.ts'

const numRuns = Number(process.env['TRACES'] ?? 10_000)

/** Opens admission whose time the test sets, with the counters of fixed windows in a map. */
function openAdmission(maxKeys = 1_000) {
  const counts = new Map<string, number>()
  let nowMs = 0
  let monotonicMs = 0
  const { admit } = createMemoryAdmission({
    clock: { nowMs: () => nowMs, monotonicMs: () => monotonicMs },
    maxKeys,
    count({ key }, hits) {
      counts.set(key, (counts.get(key) ?? 0) + hits)
      return counts.get(key) ?? 0
    },
  })
  return {
    counts,
    at(seconds: number, checks: readonly LimitCheck[], passed = 0): readonly LimitOutcome[] {
      nowMs = Math.round(seconds * 1000)
      monotonicMs = passed * 1000
      return admit(checks)
    },
  }
}

for (const algorithm of Object.keys(oracles) as TracedAlgorithm[]) {
  test(`${algorithm} equals its oracle in admission, remaining hits and wait on random traces`, () => {
    const equals = property(trace, ({ windowTicks, ticksPerSecond, calls }) => {
      const oracle = oracles[algorithm](windowTicks)
      const { at } = openAdmission()
      for (const call of calls) {
        const check = { ...checkOf(algorithm, 'key', windowTicks, call), ticksPerSecond }
        const [outcome] = at(call.now / ticksPerSecond, [check])
        assert.ok(outcome)
        assertEqualsOracle(oracle, call, outcome, ticksPerSecond)
      }
    })
    assertProperty(equals, { numRuns })
  })
}

for (const algorithm of ['FixedWindow', 'TokenBucket'] as const) {
  test(`leases of a ${algorithm} never admit more than the limit on random traces`, async () => {
    const isKept = asyncProperty(leaseTrace, async traced => {
      const { at } = openAdmission()
      const ask = (check: LimitCheck, nowMs: number) => at(nowMs / 1_000, [check])[0] as LimitOutcome
      await runLeaseTrace(algorithm, traced, 'key', ask)
    })
    await assertProperty(isKept, { numRuns })
  })
}

const fixed = (over: Partial<LimitCheck> = {}): LimitCheck => ({
  key: 'fixed',
  algorithm: 'FixedWindow',
  hits: 1,
  limit: 2,
  burst: 2,
  windowTicks: 60,
  ticksPerSecond: 1,
  expirySeconds: 60,
  shadow: false,
  countRejected: false,
  ...over,
})

const bucket = (over: Partial<LimitCheck> = {}) =>
  fixed({ key: 'bucket', algorithm: 'TokenBucket', limit: 1, burst: 3, ...over })

test('a lease gets what is left, in all limits of a call or in none', () => {
  const { at, counts } = openAdmission()
  const lease = { atLeast: 1, holds: 0, replaced: 0, sinceMicros: 0 }
  const window = fixed({ hits: 5, limit: 7, leased: true, lease })
  const tokens = bucket({ hits: 2, limit: 1, burst: 3, leased: true, lease })
  const grantedOf = (...checks: readonly LimitCheck[]) =>
    at(0, checks).map(({ admitted, granted, remaining }) => [admitted, granted, remaining])
  assert.deepEqual(grantedOf(window, tokens), [
    [true, 5, 2],
    [true, 2, 1],
  ])
  assert.deepEqual(grantedOf(window, tokens), [
    [true, 2, 0],
    [true, 1, 0],
  ])
  assert.deepEqual(grantedOf(fixed({ ...window, limit: 9 }), tokens), [
    [true, 0, 2],
    [false, 0, 0],
  ])
  const shadow = { ...tokens, shadow: true }
  assert.deepEqual(grantedOf(fixed({ ...window, limit: 9 }), shadow), [
    [true, 2, 0],
    [false, 0, 0],
  ])
  assert.deepEqual(grantedOf({ ...window, limit: 9, lease: { ...lease, atLeast: 0 } }), [[true, 0, 0]])
  assert.deepEqual(grantedOf({ ...window, limit: 9, hits: -4 }), [[true, 0, 4]])
  assert.equal(counts.get('fixed'), 5)
})

const admittedOf = (outcomes: readonly LimitOutcome[]) => outcomes.map(({ admitted }) => admitted)

test('a call counts in every limit or in none', () => {
  const { at, counts } = openAdmission()
  const checks = [fixed(), bucket()]
  assert.deepEqual(admittedOf(at(0, checks)), [true, true])
  assert.deepEqual(admittedOf(at(0, checks)), [true, true])
  const [first, second] = at(0, checks)
  assert.deepEqual(first, { admitted: false, remaining: 0, waitSeconds: 0 })
  assert.deepEqual(second, { admitted: true, remaining: 1, waitSeconds: 0 })
  assert.equal(counts.get('fixed'), 2)
})

test('a shadow limit rejects no call, and does not count calls above it', () => {
  const { at, counts } = openAdmission()
  const checks = [fixed({ limit: 1, shadow: true }), bucket()]
  assert.deepEqual(admittedOf(at(0, checks)), [true, true])
  assert.deepEqual(admittedOf(at(0, checks)), [false, true])
  assert.equal(counts.get('fixed'), 1)
  assert.equal(at(0, [bucket({ hits: 0 })])[0]?.remaining, 1)
})

test('a call of 0 hits changes nothing, and says whether one more hit would be admitted', () => {
  const { at, counts } = openAdmission()
  assert.deepEqual(admittedOf(at(0, [fixed({ hits: 0 }), bucket({ hits: 0 })])), [true, true])
  assert.equal(counts.get('fixed'), 0)
  at(0, [bucket({ hits: 3 })])
  assert.deepEqual(admittedOf(at(0, [bucket({ hits: 0 })])), [false])
})

test('a check of 0 hits does not hide the hits of the same key in the same call', () => {
  const { at } = openAdmission()
  for (const algorithm of ['TokenBucket', 'SlidingWindow', 'Concurrency'] as const) {
    const check = bucket({ algorithm, key: algorithm, limit: 3 })
    at(0, [
      { ...check, hits: 0 },
      { ...check, hits: 2 },
    ])
    assert.equal(at(0, [{ ...check, hits: 0 }])[0]?.remaining, 1, algorithm)
  }
})

test('a state expires when it equals an empty one, and a flood of keys keeps the number of states', () => {
  const { at } = openAdmission(10)
  at(0, [bucket({ hits: 3 })])
  assert.equal(at(0, [bucket({ hits: 0 })], 179)[0]?.remaining, 0)
  assert.equal(at(0, [bucket({ hits: 0 })], 180)[0]?.remaining, 3)
  for (let index = 0; index < 100; index++) at(0, [bucket({ key: `flood ${index}`, limit: 60 })], 180)
  assert.equal(at(0, [bucket({ key: 'flood 1', hits: 0 })], 180)[0]?.remaining, 2)
  assert.equal(at(0, [bucket({ key: 'flood 50', hits: 0 })], 180)[0]?.remaining, 3)
})

test('a state that calls prolong every second for hours takes the same memory', () => {
  setFlagsFromString('--expose-gc')
  const collectGarbage: () => void = runInNewContext('gc')
  const { at } = openAdmission()
  const heapAfter = (from: number, to: number) => {
    for (let second = from; second < to; second++) at(second, [bucket({ limit: 60, burst: 60 })], second)
    collectGarbage()
    return process.memoryUsage().heapUsed
  }
  const before = heapAfter(0, 1_000)
  const bytes = heapAfter(1_000, 21_000) - before
  assert.ok(bytes < 500_000, `${bytes} bytes for 20,000 seconds`)
})

test('a change of the limit that changes the tick admits no more, and at most one tick later', () => {
  const day = 86_400
  const slow = { limit: 1_000, burst: 1_000, windowTicks: day * 1_000_000, ticksPerSecond: 1_000_000 }
  const fast = { limit: 1e7, burst: 1e7, windowTicks: day * 1_000, ticksPerSecond: 1_000 }
  const full = new TokenBucket(undefined, 0, slow)
  full.add(1_000)
  const faster = new TokenBucket(full.stored(), 0, fast)
  assert.equal(faster.remaining(), 1e7 - 1_000)
  const back = new TokenBucket(faster.stored(), 0, slow)
  assert.equal(back.remaining(), 0)
  assert.equal(back.wait(1), day * 1_000)
})

test('numbers at the end of the exact range are exact', () => {
  const limit = 2 ** 32 - 1
  const window = Math.floor((2 ** 52 - 1) / limit)
  const { at } = openAdmission()
  for (const algorithm of ['TokenBucket', 'SlidingWindow'] as const) {
    const check = { limit, burst: limit, windowTicks: window, algorithm, key: algorithm }
    assert.deepEqual(at(window, [fixed({ ...check, hits: limit - 1 })])[0]?.remaining, 1, algorithm)
    assert.equal(at(window, [fixed({ ...check, hits: 2 })])[0]?.admitted, false)
    assert.equal(at(window, [fixed({ ...check, hits: 1 })])[0]?.admitted, true)
    assert.deepEqual(at(window, [fixed({ ...check, hits: 1, limit: 1, burst: 1 })])[0]?.admitted, false)
  }
})
