import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { latencyFigures, median, percentile, spreadOf } from './percentiles.ts'

test('a percentile is a value that was measured, by nearest rank', () => {
  const values = Array.from({ length: 1000 }, (_, index) => 1000 - index)
  assert.deepEqual(
    [0, 0.5, 0.99, 0.999, 1].map(share => percentile(values, share)),
    [1, 500, 990, 999, 1000],
  )
  assert.equal(percentile([7], 0.99), 7)
  assert.equal(percentile([], 0.5), 0)
})

test('at least its share of the values is at most the percentile, and fewer are below it', () => {
  const values = fc.array(fc.double({ noNaN: true }), { minLength: 1 })
  fc.assert(
    fc.property(values, fc.double({ min: 0.001, max: 1, noNaN: true }), (numbers, share) => {
      const found = percentile(numbers, share)
      const upTo = numbers.filter(number => number <= found).length
      const below = numbers.filter(number => number < found).length
      return upTo >= numbers.length * share && below < numbers.length * share
    }),
  )
})

test('numbers are sorted as numbers, and the argument is not changed', () => {
  const latencies = Float64Array.from([10, 9, 100, 1])
  assert.deepEqual(latencyFigures(latencies), { p50Ms: 9, p99Ms: 100, p999Ms: 100 })
  assert.deepEqual([...latencies], [10, 9, 100, 1])
  assert.deepEqual(spreadOf([10, 9, 100]), { median: 10, min: 9, max: 100 })
})

test('the median of an even number of values is the mean of the middle two', () => {
  assert.equal(median([1, 3, 100, 2]), 2.5)
  assert.equal(median([3, 1, 2]), 2)
  assert.equal(median([5]), 5)
  assert.equal(median([]), 0)
})
