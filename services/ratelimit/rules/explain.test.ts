import assert from 'node:assert/strict'
import { test } from 'node:test'
import { explain } from './explain.ts'
import { compileRules, parseEntries, splitLines } from './testing/rules-of-yaml.ts'

const rules = compileRules(
  `
domain: shop
descriptors:
  - {key: user, value: alice, rate_limit: {unit: minute, requests_per_unit: 3, name: al}}
  - {key: user, value: "b*", rate_limit: {unlimited: true}}
  - {key: user, value: admin}
  - key: path
    descriptors:
      - {key: verb, value: get, rate_limit: {unit: hour, requests_per_unit: 1}}
      - {key: verb, value: put, rate_limit: {unit: hour, requests_per_unit: 1}}
`,
  'domain: other',
)

/** A request and how each of its entries matched; the result is on the next line. */
const results = `
user=alice -> exact
  shop.user_alice (named al): 3/minute
user=bob -> wildcard
  shop.user_b*: unlimited
user=carol -> stopped
  no limit: no rule for key user with value 'carol' at this level; there are: alice, b*, admin
ip=1 -> stopped
  no limit: no rule for key ip at this level; there are: user, path
user=admin -> exact
  no limit: whitelisted by shop.user_admin, which has neither a limit nor rules below it
user=admin x=y -> exact, stopped
  no limit: rule shop.user_admin is whitelisted, and has no rules below it
user=alice x=y z=w -> exact, stopped, not reached
  no limit: rule shop.user_alice has a limit, but the request has one more entry
path=/x -> any value
  no limit: shop.path is a placeholder without a limit; below it there are: verb
path=/x verb=get -> any value, exact
  shop.path.verb_get: 1/hour
path=/x verb=del -> any value, stopped
  no limit: no rule for key verb with value 'del' at this level; there are: get, put
path=/x user=alice -> any value, stopped
  no limit: no rule for key user at this level; there are: verb
->
  no limit: the request has no entries
`

test('each entry has how it matched or why matching stopped, and the result summarizes it', () => {
  const lines = splitLines(results)
  for (let index = 0; index < lines.length; index += 2) {
    const [line = '', expected] = lines.slice(index)
    const [request = '', hows] = line.split('->').map(part => part.trim())
    const { entries, result } = explain(rules, 'shop', parseEntries(request))
    assert.equal(entries.map(entry => entry.how).join(', '), hows, line)
    assert.equal(result, expected, line)
  }
})

test('the result for an unknown domain lists the known ones', () => {
  const { entries, result, limit } = explain(rules, 'shopp', parseEntries('user=alice'))
  assert.equal(result, "domain 'shopp' unknown; there are: shop, other")
  assert.deepEqual(entries, [{ key: 'user', value: 'alice', how: 'not reached' }])
  assert.equal(limit, undefined)
})

test('an explanation is plain data, with the limit and the cache key', () => {
  const explained = explain(rules, 'shop', parseEntries('user=alice'))
  assert.deepEqual(JSON.parse(JSON.stringify(explained)), {
    entries: [{ key: 'user', value: 'alice', how: 'exact', rule: 'shop.user_alice' }],
    result: 'shop.user_alice (named al): 3/minute',
    limit: {
      name: 'al',
      fullKey: 'shop.user_alice',
      statName: 'shop.user_alice',
      requestsPerUnit: 3,
      unit: 'minute',
      unitSeconds: 60,
      unlimited: false,
      shadowMode: false,
      quotaMode: false,
      replaces: [],
    },
    baseKey: 'shop_user_alice_',
  })
})

test('a long list of names ends after ten', () => {
  const keys = Array.from({ length: 12 }, (_, index) => `{key: k${index}}`)
  const many = compileRules(`{domain: d, descriptors: [${keys.join(', ')}]}`)
  assert.match(explain(many, 'd', parseEntries('x=y')).result, /there are: k0, .*k9, and 2 more$/)
})
