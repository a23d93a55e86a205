import assert from 'node:assert/strict'
import { test } from 'node:test'
import { compile } from '../rules/compile.ts'
import { match } from '../rules/match.ts'
import { measureCpuMs, parseConfig } from '../rules/testing/rules-of-yaml.ts'
import { createLimitStats } from '../stats/limit-stats.ts'
import { createStats } from '../stats/stats.ts'
import { counterSessionCodec, toTotalsMessage } from './report-codec.ts'
import { createTotalsReport } from './rule-totals.ts'

function open() {
  const { attach } = createLimitStats(createStats(), () => {})
  const load = (...domains: string[]) =>
    compile(
      domains.map(domain =>
        parseConfig(
          `{domain: ${domain}, descriptors: [{key: user, rate_limit: {unit: minute, requests_per_unit: 3}}, ` +
            '{key: path, rate_limit: {unit: minute, requests_per_unit: 5}}]}',
          `${domain}.yaml`,
        ),
      ),
      { mergeDomainConfigs: false, attach },
    )
  let rules = load('shop', 'other')
  const report = createTotalsReport(
    () => rules,
    ({ known }) => known.length,
  )
  return {
    reload(...domains: string[]) {
      rules = load(...domains)
    },
    /** Returns the statistics of the rule with this key, as a decision finds them. */
    statsOf(domain: string, key: string) {
      return match(rules, domain, [{ key, value: 'x' }])?.limit.stats ?? assert.fail()
    },
    /** Returns the lines of a report: `shop whole user:3/0`, with the allowed and the rejected hits. */
    report() {
      const { domains, removedDomains } = report()
      const lines = domains.map(({ domain, isWhole, changed }) => {
        const rules = changed.map(({ rule, allowed, refused }) => ` ${rule}:${allowed}/${refused}`)
        return `${domain}${isWhole ? ' whole' : ''}${rules.join('')}`
      })
      return [...lines, ...removedDomains.map(name => `${name} removed`)]
    },
  }
}

test('a report has only the rules whose totals changed since the report before', () => {
  const { report, statsOf } = open()
  assert.deepEqual(report(), ['shop whole', 'other whole'])
  assert.deepEqual(report(), [])
  statsOf('shop', 'user').withinLimit += 3
  statsOf('shop', 'user').overLimit += 1
  assert.deepEqual(report(), ['shop shop.user:3/1'])
  assert.deepEqual(report(), [])
  statsOf('other', 'path').withinLimit += 1
  assert.deepEqual(report(), ['other other.path:1/0'])
})

test('the report after a change of the rules has all those with hits, and the removed domains', () => {
  const { report, statsOf, reload } = open()
  statsOf('shop', 'user').withinLimit += 3
  report()
  reload('shop')
  assert.deepEqual(report(), ['shop whole shop.user:3/0', 'other removed'])
  assert.deepEqual(report(), [])
})

test('hits that are named after requests count in one rule after a change that gives them another', () => {
  const { attach } = createLimitStats(createStats(), () => {})
  const limit = 'rate_limit: {unit: minute, requests_per_unit: 3}'
  const load = (more: string) =>
    compile(
      [parseConfig(`{domain: shop, descriptors: [{key: user, detailed_metric: true, ${limit}}${more}]}`)],
      {
        mergeDomainConfigs: false,
        attach,
      },
    )
  let rules = load('')
  const report = createTotalsReport(
    () => rules,
    () => 2,
  )
  const allowed = () =>
    report().domains.flatMap(({ changed }) => changed.map(each => [each.rule, each.allowed] as const))
  const call = () => {
    const found = match(rules, 'shop', [{ key: 'user', value: 'bob' }], attach) ?? assert.fail()
    found.limit.stats.withinLimit += 1
  }
  call()
  assert.deepEqual(allowed(), [['shop.user', 1]])
  rules = load(`, {key: user, value: bob, ${limit}}`)
  allowed()
  call()
  assert.deepEqual(allowed(), [['shop.user_bob', 2]])
})

test('a report of 1,000 changed rules takes less than 1 % of a core at one report in 5 s', () => {
  const { attach } = createLimitStats(createStats(), () => {})
  const values = Array.from({ length: 1_000 }, (_, index) => `user-${index}`)
  const descriptors = values.map(
    value => `{key: user, value: ${value}, rate_limit: {unit: minute, requests_per_unit: 3}}`,
  )
  const config = parseConfig(`{domain: shop, descriptors: [${descriptors.join(', ')}]}`)
  const rules = compile([config], { mergeDomainConfigs: false, attach })
  const found = values.map(
    value => match(rules, 'shop', [{ key: 'user', value }])?.limit.stats ?? assert.fail(),
  )
  const report = createTotalsReport(
    () => rules,
    () => values.length,
  )
  const state = {
    decisions: 0,
    p50Ms: 0,
    p99Ms: 0,
    backendProblem: '',
    droppedReports: 0,
    intervalMs: 0,
    shares: [],
  }
  const times = Array.from({ length: 30 }, () => {
    for (const stats of found) stats.withinLimit += 1
    let bytes = 0
    const ms = measureCpuMs(() => {
      bytes = counterSessionCodec.encode(toTotalsMessage(report(), state)).length
    })
    assert.ok(bytes > 20_000, `${bytes} bytes`)
    return ms
  }).sort((a, b) => a - b)
  const median = times[15] ?? assert.fail()
  console.log('M', median)
  assert.ok(median < 50, `${median} ms of CPU`)
})
