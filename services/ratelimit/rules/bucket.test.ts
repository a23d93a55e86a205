import assert from 'node:assert/strict'
import { test } from 'node:test'
import { matchBucket, orderEntries } from './bucket.ts'
import { compile } from './compile.ts'
import { parseYaml } from './yaml/parse-yaml.ts'

const yaml = `
domain: shop
descriptors:
  - key: path
    value: /pay
    rate_limit: {unit: second, requests_per_unit: 9}
    descriptors:
      - key: user
        rate_limit: {unit: second, requests_per_unit: 5}
        descriptors: [{key: plan, rate_limit: {unit: second, requests_per_unit: 4}}]
  - key: user
    descriptors: [{key: path, rate_limit: {unit: second, requests_per_unit: 7}}]
  - {key: group}
`

const parsed = parseYaml('test.yaml', yaml)
if ('problems' in parsed) throw new Error(JSON.stringify(parsed.problems))
const [level] = parsed.value.descriptors
assert.ok(level?.rateLimit)
const shared = { ...level, rateLimit: { ...level.rateLimit, delivery: 'Quota' as const } }
const [, ...others] = parsed.value.descriptors
const rules = compile([{ ...parsed.value, descriptors: [shared, ...others] }], {
  mergeDomainConfigs: false,
  attach: () => undefined,
})

const toEntries = (bucket: Record<string, string>) =>
  Object.entries(bucket).map(([key, value]) => ({ key, value }))

test('entries get the order of the levels that leads to a limit', () => {
  const cases: readonly (readonly [Record<string, string>, string | undefined])[] = [
    [{ path: '/pay' }, 'path'],
    [{ user: 'a', path: '/pay' }, 'path user'],
    [{ path: '/pay', user: 'a' }, 'path user'],
    [{ plan: 'free', user: 'a', path: '/pay' }, 'path user plan'],
    [{ path: '/other', user: 'a' }, 'user path'],
    [{ path: '/other', user: 'a', plan: 'free' }, undefined],
    [{ user: 'a' }, undefined],
    [{ group: 'a' }, undefined],
    [{}, undefined],
    [{ other: 'a' }, undefined],
    [Object.fromEntries(Array.from({ length: 5000 }, (_, index) => [`${index}`, ''])), undefined],
  ]
  for (const [bucket, expected] of cases) {
    const ordered = orderEntries(rules, 'shop', toEntries(bucket))
    assert.equal(ordered?.map(({ key }) => key).join(' '), expected, JSON.stringify(bucket))
  }
  assert.equal(orderEntries(rules, 'unknown', toEntries({ path: '/pay' })), undefined)
})

test('only a rule with delivery: Quota is shared', () => {
  assert.equal(matchBucket(rules, 'shop', toEntries({ path: '/pay' }))?.limit.requestsPerUnit, 9)
  assert.equal(matchBucket(rules, 'shop', toEntries({ path: '/pay', user: 'a' })), undefined)
  assert.equal(matchBucket(rules, 'shop', toEntries({ group: 'a' })), undefined)
})
