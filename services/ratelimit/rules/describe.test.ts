import assert from 'node:assert/strict'
import { test } from 'node:test'
import { describeRules } from './describe.ts'
import { compileRules } from './testing/rules-of-yaml.ts'

test('limits are listed one per line, as in the reference', () => {
  const rules = compileRules(`
domain: shop
descriptors:
  - {key: ip, value: 1.2.3.4, shadow_mode: true, rate_limit: {unit: minute, requests_per_unit: 3}}
  - {key: user, descriptors: [{key: path, quota_mode: true, rate_limit: {unlimited: true}}]}
`)
  assert.equal(
    describeRules(rules),
    'shop.ip_1.2.3.4: unit=MINUTE requests_per_unit=3, shadow_mode: true, quota_mode: false\n' +
      'shop.user.path: unit=UNKNOWN requests_per_unit=0, shadow_mode: false, quota_mode: true\n',
  )
  assert.equal(describeRules(undefined), '')
})

test('a key with a line break stays on one line', () => {
  const rules = compileRules(`
domain: shop
descriptors:
  - {key: "a\\nb", rate_limit: {unit: minute, requests_per_unit: 3}}
`)
  assert.match(describeRules(rules), /^shop\.a\\u\{a\}b: unit=MINUTE .*\n$/)
})
