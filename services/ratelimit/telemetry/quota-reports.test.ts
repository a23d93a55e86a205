import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { SharedBucket } from '../quota/quota-buckets.ts'
import { sumShares, toBucketMessage } from './quota-reports.ts'

const capacity = { tokens: 3_600, intervalSeconds: 3_600, maxTokens: 5 }
const bucket = (rule: string, name: string, more: Partial<SharedBucket> = {}): SharedBucket => ({
  ...{ name, domain: 'shop', rule, capacity, members: 1, assigned: 10, isSettled: true },
  ...more,
})

test('sums up the buckets of each rule', () => {
  const shares = sumShares(
    [
      bucket('shop.user', 'a', { members: 3, isSettled: false }),
      bucket('shop.user', 'b', { members: 2, assigned: 5 }),
      bucket('shop.path', 'c'),
    ],
    new Map([['shop', 4]]),
  )
  assert.deepEqual(
    shares.map(({ rules, ...domain }) => [domain, rules.map(({ sketch, ...rule }) => [rule, sketch.length])]),
    [
      [
        { domain: 'shop', members: 4 },
        [
          [
            {
              rule: 'shop.user',
              tokens: 3_600,
              maxTokens: 5,
              buckets: 2,
              settled: 1,
              assigned: 15,
              mostMembers: 3,
            },
            2,
          ],
          [
            {
              rule: 'shop.path',
              tokens: 3_600,
              maxTokens: 5,
              buckets: 1,
              settled: 1,
              assigned: 10,
              mostMembers: 1,
            },
            1,
          ],
        ],
      ],
    ],
  )
})

test('tells the same 64 smallest hashes, in any order of the buckets', () => {
  const buckets = Array.from({ length: 1_000 }, (_, index) => bucket('shop.user', `bucket ${index}`))
  const [forwards] = sumShares(buckets, new Map())
  const [backwards] = sumShares([...buckets.toReversed(), ...buckets], new Map())
  const sketch = forwards?.rules[0]?.sketch ?? []
  assert.deepEqual([sketch.length, new Set(sketch).size], [64, 64])
  assert.deepEqual(backwards?.rules[0]?.sketch, sketch)
  // 64 of 1,000 hashes that are spread evenly.
  const part = (sketch.at(-1) ?? 0) / 2 ** 32
  assert.ok(part > 0.045 && part < 0.09, `${part}`)
})

test('lists the 1,000 members with the most, and sums up all', () => {
  const holder = (index: number) => ({ name: `${index}`, wanted: 2, granted: index, expiresInMs: 0.4 })
  const members = Array.from({ length: 1_500 }, (_, index) => holder(index))
  const reading = { rule: 'shop.user', capacity, process: 'p', members, holders: members, problem: '' }
  const { value } = toBucketMessage(3n, reading)
  assert.ok('members' in value)
  assert.deepEqual([value.members.length, value.holders.length, value.memberCount], [1_000, 1_000, 1_500])
  assert.deepEqual([value.wanted, value.members[0]?.name], [3_000n, '1499'])
  assert.deepEqual(toBucketMessage(3n, undefined), { case: 'bucket', value: { id: 3n } })
})
