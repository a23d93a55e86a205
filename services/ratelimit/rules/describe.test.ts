import assert from 'node:assert/strict'
import { test } from 'node:test'
import { compile } from './compile.ts'
import { describeRules } from './describe.ts'
import { makeLimit, makeRule } from './testing/make-rule.ts'
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

test('a rule shows what it matches other than its value', () => {
  const rateLimit = makeLimit(3, 'minute')
  const descriptors = [
    makeRule('ip', { value: 'lan', match: { cidr: ['10.0.0.0/8', '::1', '::2', '::3'] }, rateLimit }),
    makeRule('ip', { groupBy: { ipv6Prefix: 64 }, limits: [rateLimit, makeLimit(9, 'day')] }),
  ]
  const config = { name: 'n', domain: 'd', descriptors }
  assert.deepEqual(
    describeRules(compile([config], { mergeDomainConfigs: false, attach: () => undefined })).match(
      /^\S+:|match="[^"]*"/gm,
    ),
    [
      'd.ip_lan:',
      'match="cidr 10.0.0.0/8, ::1, ::2, and 1 more"',
      'd.ip.0:',
      'match="by ipv6Prefix 64"',
      'd.ip.1:',
      'match="by ipv6Prefix 64"',
    ],
  )
})

test('a key with a line break stays on one line', () => {
  const rules = compileRules(`
domain: shop
descriptors:
  - {key: "a\\nb", rate_limit: {unit: minute, requests_per_unit: 3}}
`)
  assert.match(describeRules(rules), /^shop\.a\\u\{a\}b: unit=MINUTE .*\n$/)
})
