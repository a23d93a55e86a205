import assert from 'node:assert/strict'
import { test } from 'node:test'
import { array, assert as assertProperty, constantFrom, integer, oneof, property, record } from 'fast-check'
import { maxMin } from '../../../test/oracles/max-min.ts'
import { type Claim, divide } from './divide.ts'

const numRuns = Number(process.env['TRACES'] ?? 10_000)

const amount = oneof(integer({ min: 0, max: 20 }), integer({ min: 0, max: 5_000_000_000 }))
const claim = record({
  wanted: amount,
  weight: oneof({ weight: 3, arbitrary: constantFrom(1) }, integer({ min: 1, max: 100 })),
  floor: oneof({ weight: 3, arbitrary: constantFrom(0) }, integer({ min: 0, max: 30 })),
})
const claims = array(claim, { maxLength: 30, size: 'max' })

const sum = (numbers: readonly number[]) => numbers.reduce((total, each) => total + each, 0)

test('each part is the one of the oracle, rounded up or down', () => {
  const equals = property(amount, claims, (capacity, all) => {
    const exact = maxMin(capacity, all)
    for (const [index, part] of divide(capacity, all).entries()) {
      assert.ok(Number.isInteger(part))
      const expected = exact[index] ?? 0
      // The oracle's fractions are not exact.
      assert.ok(Math.abs(part - expected) < 1 + 1e-6, `${part} instead of ${expected} for the claim ${index}`)
    }
  })
  assertProperty(equals, { numRuns })
})

test('the sum is the capacity, or what all want, and no part exceeds its claim', () => {
  const holds = property(amount, claims, (capacity, all) => {
    const parts = divide(capacity, all)
    const most = all.map(({ wanted, floor }) => Math.max(wanted, floor))
    assert.equal(sum(parts), Math.min(capacity, sum(most)))
    for (const [index, part] of parts.entries()) assert.ok(part >= 0 && part <= (most[index] ?? 0))
  })
  assertProperty(holds, { numRuns })
})

test('equal claims differ by at most 1, in favour of the earlier one', () => {
  const holds = property(amount, claims, claim, (capacity, others, twin) => {
    const parts = divide(capacity, [twin, ...others, twin])
    const [first = 0, last = 0] = [parts[0], parts.at(-1)]
    assert.ok(first === last || first === last + 1, `${first} and ${last}`)
  })
  assertProperty(holds, { numRuns })
})

const want = (wanted: number, over: Partial<Claim> = {}): Claim => ({ wanted, weight: 1, floor: 0, ...over })

/** Each row: what it shows, the capacity, the claims and their parts. */
const rows: readonly (readonly [string, number, readonly Claim[], readonly number[]])[] = [
  ['nothing is claimed', 100, [], []],
  ['all get what they want', 100, [want(20), want(80)], [20, 80]],
  ['what one leaves goes to the others', 120, [want(1000), want(50), want(10)], [60, 50, 10]],
  ['a remainder goes to the earlier', 11, [want(9), want(9), want(9)], [4, 4, 3]],
  ['a weight counts for as many', 120, [want(1000, { weight: 3 }), want(1000)], [90, 30]],
  ['a floor is on top', 100, [want(90, { floor: 20 }), want(90)], [60, 40]],
  ['a floor counts even for one that wants less', 100, [want(0, { floor: 5 }), want(200)], [5, 95]],
  ['floors are scaled down', 9, [want(50, { floor: 20 }), want(50, { floor: 10 }), want(50)], [6, 3, 0]],
  ['there is no capacity', 0, [want(5), want(5, { floor: 1 })], [0, 0]],
]

for (const [title, capacity, all, parts] of rows) {
  test(`divide: ${title}`, () => assert.deepEqual(divide(capacity, all), parts))
}
