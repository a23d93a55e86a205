import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseReceivedCounts } from './late-join.ts'

test('valid received counts are parsed, and anything else is an error', () => {
  const table: readonly (readonly [string, Record<string, number> | RegExp])[] = [
    ['r1=12', { r1: 12 }],
    ['r1=12, r2.3=0', { r1: 12, 'r2.3': 0 }],
    ['r1=1, r1=2', { r1: 2 }],
    ['none', {}],
    ['r1', /"r1" is neither <run>=<count> nor none/],
    ['', /"" is neither/],
    ['=3', /"=3" is neither/],
    ['r1=-1', /"r1=-1" is neither/],
    ['r1=1e3', /"r1=1e3" is neither/],
    ['r1=9999999999999999', /is neither/],
    [`${'r'.repeat(101)}=1`, /is neither/],
    ['%41=1', /"%41=1" is neither/],
    ['a=1,'.repeat(101), /102 runs, at most 100 are allowed/],
  ]
  for (const [value, expected] of table) {
    if (expected instanceof RegExp) assert.throws(() => parseReceivedCounts([value]), expected, value)
    else assert.deepEqual(Object.fromEntries(parseReceivedCounts([value]) ?? []), expected, value)
  }
  assert.deepEqual(
    [...(parseReceivedCounts(['r1=1', 'r2=2']) ?? [])],
    [
      ['r1', 1],
      ['r2', 2],
    ],
  )
  assert.equal(parseReceivedCounts([]), undefined)
})
