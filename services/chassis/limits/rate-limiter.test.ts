import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { addressKey } from './address-key.ts'
import { KeyedRateLimiter, RateLimiter } from './rate-limiter.ts'

/** Each step either lets milliseconds pass or asks for tokens. */
const steps = fc.array(
  fc.oneof(
    fc.record({ passMs: fc.nat(500) }),
    fc.record({ tokens: fc.integer({ min: 1, max: 6 }), waits: fc.boolean() }),
  ),
  { maxLength: 60 },
)

test('a limiter allows what a bucket of tokens allows, as soon as it does', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 1_000 }),
      fc.integer({ min: 1, max: 6 }),
      steps,
      (perSecond, burst, plan) => {
        let nowMs = 1e9
        const limiter = new RateLimiter({ perSecond, burst }, { monotonicMs: () => nowMs })
        // The bucket counts thousandths of tokens, which are whole numbers at whole milliseconds.
        let bucket = burst * 1_000
        for (const step of plan) {
          if ('passMs' in step) {
            nowMs += step.passMs
            bucket = Math.min(burst * 1_000, bucket + step.passMs * perSecond)
            continue
          }
          const { tokens, waits } = step
          const after = bucket - tokens * 1_000
          const waitMs = Math.max(0, -after / perSecond)
          assert.ok(
            Math.abs(limiter.waitMs(tokens) - waitMs) < 0.01,
            `${limiter.waitMs(tokens)}, not ${waitMs}`,
          )
          if (waits) assert.ok(Math.abs(limiter.reserve(tokens) - waitMs) < 0.01)
          else assert.equal(limiter.tryAcquire(tokens), waitMs === 0)
          if (waits || waitMs === 0) bucket = after
        }
      },
    ),
  )
})

test('waits for a token end in the order of the calls, and when their signal aborts', async t => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const limiter = new RateLimiter({ perSecond: 10, burst: 1 }, { monotonicMs: () => 0 })
  const ended: string[] = []
  const stopping = new AbortController()
  const wait = (name: string) =>
    limiter.acquire(stopping.signal).then(
      () => ended.push(name),
      () => ended.push(`${name} aborted`),
    )
  const waits = ['a', 'b', 'c', 'd'].map(wait)
  await waits[0]
  t.mock.timers.tick(100)
  await waits[1]
  assert.deepEqual(ended, ['a', 'b'])
  stopping.abort()
  await Promise.all([...waits, wait('e')])
  assert.deepEqual(ended.slice(2).toSorted(), ['c aborted', 'd aborted', 'e aborted'])
})

test('attempts of one key are limited, and allowed again over time', () => {
  let nowMs = 0
  const limit = new KeyedRateLimiter(2, { monotonicMs: () => nowMs })
  const takes: [key: string, atMs: number, waitMs: number][] = [
    ['a', 0, 0],
    ['a', 0, 0],
    ['a', 0, 30_000],
    ['b', 0, 0],
    ['a', 29_999, 1],
    ['a', 30_000, 0],
    ['a', 30_000, 30_000],
    ['a', 1_000_000, 0],
    ['a', 1_000_000, 0],
    ['a', 1_000_000, 30_000],
  ]
  for (const [key, atMs, waitMs] of takes) {
    nowMs = atMs
    assert.equal(limit.take(key), waitMs, `${key} at ${atMs}`)
  }
})

test('a key beyond its limit stays limited, however many other keys ask', () => {
  let nowMs = 0
  const limit = new KeyedRateLimiter(2, { monotonicMs: () => nowMs })
  assert.deepEqual([limit.take('a'), limit.take('a'), limit.take('a')], [0, 0, 30_000])
  for (let other = 0; other < 20_000; other += 1) limit.take(`other ${other}`)
  assert.ok(limit.take('a') >= 30_000)
  nowMs = 1_000_000
  assert.equal(limit.take('a'), 0)
})

test('few keys are rejected because of calls of others', () => {
  const limit = new KeyedRateLimiter(60, { monotonicMs: () => 0 })
  let rejected = 0
  for (let key = 0; key < 10_000; key += 1) rejected += limit.take(`${key}`) > 0 ? 1 : 0
  assert.equal(rejected, 0)
})

test('a key in a cooldown is rejected for its time', () => {
  let nowMs = 5_000
  const limit = new KeyedRateLimiter(3, { monotonicMs: () => nowMs })
  assert.equal(limit.waitMs('a'), 0)
  limit.cooldown('a', 7_000)
  assert.deepEqual([limit.waitMs('a'), limit.waitMs('b')], [7_000, 0])
  nowMs += 7_000
  assert.equal(limit.take('a'), 0)
})

test('an address has one key in any spelling, and a network of IPv6 has one', () => {
  const table: readonly (readonly [string, string])[] = [
    ['203.0.113.7', '203.0.113.7'],
    ['::ffff:203.0.113.7', '203.0.113.7'],
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
    ['2001:DB8:0001:2::9', '2001:db8:1:2::/64'],
    ['2001:db8::1', '2001:db8:0:0::/64'],
    ['::1', '0:0:0:0::/64'],
    ['fe80::1%eth0', 'fe80:0:0:0::/64'],
    ['unknown', 'unknown'],
    ['x'.repeat(100), 'x'.repeat(64)],
  ]
  for (const [address, key] of table) assert.equal(addressKey(address), key)
})
