import assert from 'node:assert/strict'
import { test } from 'node:test'
import { BoundedHistogram } from './bounded-histogram.ts'
import { histogramSamples } from './exposition-format.ts'

test('a histogram counts the values up to each bound', () => {
  const histogram = new BoundedHistogram([1, 2, 100])
  for (const value of [-5, 0, 1, 1.5, 100, 1e9, Number.NaN]) histogram.record(value)
  assert.deepEqual(histogram.atMost(), [3, 4, 5])
  assert.equal(histogram.count, 6)
})

test('a histogram is exposed with all values in the bucket without a bound', () => {
  const histogram = new BoundedHistogram([1, 5])
  for (const value of [0.5, 3, 9]) histogram.record(value)
  const { bounds, count, sum } = histogram
  const samples = [
    ...histogramSamples('took', 'route="a"', { bounds, atMost: histogram.atMost(), count, sum }),
  ]
  assert.deepEqual(samples, [
    ['took_bucket{route="a",le="1"}', 1],
    ['took_bucket{route="a",le="5"}', 2],
    ['took_bucket{route="a",le="+Inf"}', 3],
    ['took_sum{route="a"}', 12.5],
    ['took_count{route="a"}', 3],
  ])
})
