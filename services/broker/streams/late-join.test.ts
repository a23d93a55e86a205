import assert from 'node:assert/strict'
import { test } from 'node:test'
import { readReceived } from './late-join.ts'

test('what a consumer has had is read, and anything else is named', () => {
  const table: readonly (readonly [string, Record<string, number> | RegExp])[] = [
    ['r1=12', { r1: 12 }],
    ['r1=12, r2=0', { r1: 12, r2: 0 }],
    ['=3', { '': 3 }],
    ['a%3Db%2C%C3%A4=1', { 'a=b,ä': 1 }],
    ['r1=1, r1=2', { r1: 2 }],
    ['r1', /"r1" is not <request>=<count>/],
    ['', /"" is not <request>=<count>/],
    ['r1=-1', /"r1=-1" is not/],
    ['r1=1e3', /"r1=1e3" is not/],
    ['r1=9999999999999999', /is not <request>=<count>/],
    ['%=1', /"%" is not percent-encoded/],
    ['a=1,'.repeat(101), /102 requests, at most 100 are allowed/],
  ]
  for (const [value, expected] of table) {
    if (expected instanceof RegExp) assert.throws(() => readReceived([value]), expected, value)
    else assert.deepEqual(Object.fromEntries(readReceived([value])), expected, value)
  }
  assert.deepEqual(
    [...readReceived(['r1=1', 'r2=2'])],
    [
      ['r1', 1],
      ['r2', 2],
    ],
  )
  assert.deepEqual([...readReceived([])], [])
})
