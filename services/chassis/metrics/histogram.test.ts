import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { bucketMiddleMs, bucketRangeMs, countsAtMost, Histogram, quantileMs } from './histogram.ts'

/** Returns the bucket that counts a duration. */
function bucketOf(ms: number): number {
  const histogram = new Histogram()
  histogram.record(ms)
  return histogram.counts.indexOf(1)
}

test('a duration is counted in a narrow bucket that contains it', () => {
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 2 ** 31 - 2 }), microseconds => {
      const ms = microseconds / 1000
      const { fromMs, toMs } = bucketRangeMs(bucketOf(ms))
      // The rounding error of a float is far below a microsecond.
      assert.ok(fromMs <= ms + 1e-6 && ms < toMs + 0.001, `${ms} is not in ${fromMs} to ${toMs}`)
      assert.ok(toMs - fromMs <= Math.max(0.001, fromMs / 32) + 1e-9)
    }),
  )
})

test('the buckets are contiguous', () => {
  const { counts } = new Histogram()
  for (let bucket = 1; bucket < counts.length; bucket++) {
    assert.equal(bucketRangeMs(bucket - 1).toMs, bucketRangeMs(bucket).fromMs)
  }
})

test('invalid durations count as 0, and too long ones in the last bucket', () => {
  const last = new Histogram().counts.length - 1
  for (const ms of [0, -1, Number.NaN, Number.NEGATIVE_INFINITY, 0.0004]) assert.equal(bucketOf(ms), 0)
  for (const ms of [2 ** 31 / 1000, 1e12, Number.POSITIVE_INFINITY]) assert.equal(bucketOf(ms), last)
})

test('count and sum are exact', () => {
  const histogram = new Histogram()
  for (const ms of [0.25, 1, 1000.5, -7]) histogram.record(ms)
  assert.deepEqual([histogram.count, histogram.sumMs], [4, 1001.75])
})

test('durations up to a bound are counted with an error of at most 3 %', () => {
  const histogram = new Histogram()
  for (const ms of [1, 4.8, 5.2, 9.5, 30, 5000]) histogram.record(ms)
  assert.deepEqual(countsAtMost(histogram.counts, [0.5, 5, 10, 100, 1e9]), [0, 2, 4, 5, 6])
  assert.deepEqual(countsAtMost(histogram.counts, []), [])
})

test('a quantile has an error of at most 3 %', () => {
  const histogram = new Histogram()
  for (let ms = 1; ms <= 1000; ms++) histogram.record(ms)
  for (const quantile of [0.1, 0.5, 0.99]) {
    const found = quantileMs(histogram.counts, quantile)
    assert.ok(Math.abs(found / (quantile * 1000) - 1) < 0.03, `${quantile}: ${found}`)
  }
  assert.equal(quantileMs(new Histogram().counts, 0.5), 0)
  assert.ok(bucketMiddleMs(0) < 0.001)
})
