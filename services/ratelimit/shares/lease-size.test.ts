import assert from 'node:assert/strict'
import { test } from 'node:test'
import { leaseSize } from './lease-size.ts'

/** Each row: what it shows, the observed hits a second, what the limit has left, and the size. */
const rows: readonly (readonly [string, number, number, number])[] = [
  ['50 ms of a low rate', 1_000, 1_000_000, 50],
  ['100 hits of a middle rate', 5_000, 1_000_000, 100],
  ['10 ms of a high rate', 50_000, 1_000_000, 500],
  ['a sixteenth of what is left', 50_000, 1_600, 100],
  ['one by one near the limit', 50_000, 31, 1],
  ['the last one', 50_000, 1, 1],
  ['nothing is left', 50_000, 0, 0],
  ['more was used than the limit has', 50_000, -3, 0],
  ['no rate is known', 0, 1_000_000, 1],
]

for (const [title, rate, left, size] of rows) {
  test(`leaseSize: ${title}`, () => assert.equal(leaseSize(rate, left), size))
}
