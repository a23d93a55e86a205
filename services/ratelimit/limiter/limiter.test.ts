import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Clock } from '@tollway/chassis/clock.ts'
import { CountersError, type Hit } from '../counters/counters.ts'
import { createMemoryCounters } from '../counters/memory.ts'
import { compile } from '../rules/compile.ts'
import type { RateLimitPolicy, RateLimitRule } from '../rules/model.ts'
import { parseYaml } from '../rules/yaml/parse-yaml.ts'
import { createLimitStats } from '../stats/limit-stats.ts'
import { createStats } from '../stats/stats.ts'
import { type Counting, overLimitCached } from './counting.ts'
import type { DecisionRequest } from './decision.ts'
import { type LimiterOptions, RuleLimiter } from './limiter.ts'

const nowSeconds = 1_000_000
const clock: Clock = { nowMs: () => nowSeconds * 1000, monotonicMs: () => 0 }

function open(yaml: string, more: Partial<LimiterOptions> = {}) {
  const stats = createStats()
  const limitStats = createLimitStats(stats, () => {})
  const parsed = parseYaml('test.yaml', yaml)
  assert.ok('value' in parsed, JSON.stringify(parsed))
  const rules = compile([parsed.value], { mergeDomainConfigs: false, attach: limitStats.attach })
  const limiter = new RuleLimiter({
    rules: () => rules,
    counting: createMemoryCounters({ clock }),
    stats,
    limitStats,
    clock,
    random: () => 0,
    cacheKeyPrefix: '',
    expirationJitterMaxSeconds: 0,
    nearLimitRatio: 0.8,
    shadowMode: false,
    quotaMode: false,
    dynamicMetadata: false,
    ...more,
  })
  return { limiter, stats }
}

/** `user=alice path=/x; user=bob #3`: two descriptors, the second with its own addend. */
function request(text: string, domain = 'd'): DecisionRequest {
  const descriptors = text.split(';').map(part => {
    const words = part.trim().split(' ')
    const addend = words.find(word => word.startsWith('#'))
    const entries = words
      .filter(word => !word.startsWith('#'))
      .map(word => ({ key: word.split('=')[0] ?? '', value: word.split('=')[1] ?? '' }))
    return addend === undefined ? { entries } : { entries, hitsAddend: Number(addend.slice(1)) }
  })
  return { domain, descriptors, hitsAddend: 0 }
}

const basic = `
domain: d
descriptors:
  - {key: user, rate_limit: {unit: minute, requests_per_unit: 3}}
  - {key: path, value: /free, rate_limit: {unlimited: true}}
  - {key: path, value: /watched, shadow_mode: true, rate_limit: {name: w, unit: hour, requests_per_unit: 1}}
  - key: plan
    value: gold
    rate_limit: {unit: minute, requests_per_unit: 100, name: gold, replaces: [{name: all}]}
  - {key: all, rate_limit: {unit: minute, requests_per_unit: 1, name: all}}
  - {key: zero, rate_limit: {unit: second, requests_per_unit: 0}}
`

async function codes(limiter: ReturnType<typeof open>['limiter'], text: string, times: number) {
  const all: string[] = []
  for (let call = 0; call < times; call++)
    all.push((await limiter.decide(request(text))).over ? 'OVER' : 'OK')
  return all.join(' ')
}

test('decisions, a call after another', async () => {
  const table: [string, number, string][] = [
    ['user=alice', 5, 'OK OK OK OVER OVER'],
    ['user=bob', 3, 'OK OK OK'],
    ['user=carol #2', 3, 'OK OVER OVER'],
    ['user=dora #0', 9, 'OK OK OK OK OK OK OK OK OK'],
    ['path=/free', 3, 'OK OK OK'],
    ['path=/watched', 3, 'OK OK OK'],
    ['nothing=matches', 2, 'OK OK'],
    ['all=x; plan=gold', 3, 'OK OK OK'],
    ['all=y', 2, 'OK OVER'],
    ['zero=x', 1, 'OVER'],
    ['user=eve; user=eve', 2, 'OK OVER'],
  ]
  const { limiter } = open(basic)
  for (const [text, times, expected] of table) assert.equal(await codes(limiter, text, times), expected, text)
})

test('statuses have the limit, the remaining requests and the end of the window', async () => {
  const { limiter } = open(basic)
  const { statuses } = await limiter.decide(request('user=alice; path=/free; nothing=x; path=/watched'))
  const resetOf = (seconds: number) => seconds - (nowSeconds % seconds)
  const minute = { name: '', requestsPerUnit: 3, unit: 'minute', resetSeconds: resetOf(60) }
  const hour = { name: 'w', requestsPerUnit: 1, unit: 'hour', resetSeconds: resetOf(3600) }
  assert.deepEqual(statuses, [
    { over: false, remaining: 2, limit: minute },
    { over: false, remaining: 0xffffffff },
    { over: false, remaining: 0 },
    { over: false, remaining: 0, limit: hour },
  ])
})

/** The hits, and the reset, of a limit with these windows at `nowSeconds`. */
async function hitOf(windows: Partial<RateLimitPolicy> & { readonly unit: string }) {
  const hits: Hit[] = []
  const counting: Counting = {
    add(batch) {
      hits.push(...batch)
      return batch.map(() => 1)
    },
    admit: () => [],
  }
  const rateLimit = { requestsPerUnit: 3, unlimited: false, name: '', replaces: [], ...windows }
  const rule: RateLimitRule = {
    key: 'user',
    value: '',
    rateLimit,
    descriptors: [],
    ...{
      shadowMode: false,
      detailedMetric: false,
      quotaMode: false,
      valueToMetric: false,
      shareThreshold: false,
    },
  }
  const domain = { name: 'd', domain: 'd', descriptors: [rule] }
  const limitStats = createLimitStats(createStats(), () => {})
  const rules = compile([domain], { mergeDomainConfigs: false, attach: limitStats.attach })
  const { limiter } = open(basic, { counting, rules: () => rules })
  const { statuses } = await limiter.decide(request('user=alice'))
  const [hit] = hits
  return [hit?.key, hit?.expirySeconds, hit?.perSecond, statuses[0]?.limit?.resetSeconds]
}

test('a window of several units, or of a calendar, has its start in the key', async () => {
  const seconds = { unit: 'second', unitMultiplier: 15 }
  assert.deepEqual(await hitOf({ unit: 'second' }), ['d_user_alice_1000000', 1, true, 1])
  assert.deepEqual(await hitOf(seconds), ['d_user_alice_999990', 15, false, 5])
  const day = { unit: 'day', calendar: { timeZone: 'Europe/Copenhagen' } }
  // 1970-01-12, 14:46:40 at an offset of one hour.
  assert.deepEqual(await hitOf(day), ['d_user_alice_946800', 86_400, false, 33_200])
  const millionYears = { unit: 'year', unitMultiplier: 1_000_000 }
  const maxDuration = 315_576_000_000
  assert.deepEqual(await hitOf(millionYears), ['d_user_alice_0', 2 ** 31 - 1, false, maxDuration])
})

test('a replaced limit is neither counted nor reported', async () => {
  const { limiter, stats } = open(basic)
  const { statuses } = await limiter.decide(request('all=x; plan=gold'))
  assert.deepEqual(statuses[0], { over: false, remaining: 0 })
  assert.equal(stats.counter('ratelimit.service.rate_limit.d.all.total_hits').value, 0)
  assert.equal(stats.counter('ratelimit.service.rate_limit.d.plan_gold.total_hits').value, 1)
})

test('a rule in shadow mode counts the hits that it admits', async () => {
  const { limiter, stats } = open(basic)
  await codes(limiter, 'path=/watched', 3)
  const shown = (name: string) => stats.counter(`ratelimit.service.rate_limit.d.path_/watched.${name}`).value
  assert.deepEqual([shown('total_hits'), shown('over_limit'), shown('shadow_mode')], [3, 2, 2])
})

test('global shadow mode changes only the overall answer, and counts once for each request', async () => {
  const { limiter, stats } = open(basic, { shadowMode: true })
  const decision = await limiter.decide(request('zero=x; zero=y'))
  assert.equal(decision.over, false)
  assert.deepEqual(
    decision.statuses.map(({ over }) => over),
    [true, true],
  )
  assert.equal(stats.counter('ratelimit.service.global_shadow_mode').value, 1)
})

test('the limit of the caller replaces the configured one, and applies without one', async () => {
  const { limiter } = open(basic)
  const entries = [{ key: 'user', value: 'alice' }]
  const limit = { requestsPerUnit: 1, unit: 'hour' as const }
  const own = { domain: 'd', descriptors: [{ entries, limit }], hitsAddend: 0 }
  assert.equal((await limiter.decide(own)).over, false)
  assert.equal((await limiter.decide(own)).over, true)
})

test('a call that cannot be answered is counted as an error with the text of the reference', async () => {
  const { limiter, stats } = open(basic)
  const entries = [{ key: 'user', value: 'alice' }]
  const wrong: [DecisionRequest, RegExp][] = [
    [request('a=b', ''), /^rate limit domain must not be empty$/],
    [{ domain: 'd', descriptors: [], hitsAddend: 0 }, /^rate limit descriptor list must not be empty$/],
    [
      {
        domain: 'd',
        descriptors: [{ entries, limit: { requestsPerUnit: 1, unit: undefined } }],
        hitsAddend: 0,
      },
      /^descriptors\[0\]\.limit\.unit /,
    ],
  ]
  for (const [request, message] of wrong) assert.throws(() => limiter.decide(request), { message })
  assert.equal(stats.counter('ratelimit.service.call.should_rate_limit.service_error').value, 3)
  const before = open(basic, { rules: () => undefined })
  assert.throws(() => before.limiter.decide(request('a=b')), {
    message: 'no rate limit configuration loaded',
  })
})

test('an unknown domain has no limit, and is counted for each descriptor', async () => {
  const { limiter, stats } = open(basic)
  const { descriptors, ...rest } = request('a=b', 'other')
  const twice = { ...rest, descriptors: [...descriptors, ...descriptors] }
  const status = { over: false, remaining: 0 }
  assert.deepEqual(await limiter.decide(twice), { over: false, statuses: [status, status] })
  assert.equal(stats.counter('ratelimit.service.rate_limit.other.domain_not_found').value, 2)
})

test('all quotas must be used up; replaced, unlimited and unmatched descriptors do not count', async () => {
  const yaml = `
domain: d
descriptors:
  - {key: small, quota_mode: true, rate_limit: {name: small, unit: day, requests_per_unit: 0}}
  - {key: large, quota_mode: true, rate_limit: {name: large, unit: day, requests_per_unit: 9}}
  - {key: free, quota_mode: true, rate_limit: {unlimited: true}}
  - {key: instead, rate_limit: {unit: day, requests_per_unit: 9, replaces: [{name: large}]}}
`
  const table: [string, string, string][] = [
    // request, its answer, its answer in the global quota mode
    ['small=x', 'OVER', 'OVER'],
    ['small=x; large=x', 'OK', 'OK'],
    ['small=x; free=x', 'OVER', 'OVER'],
    ['small=x; large=x; instead=x', 'OVER', 'OK'],
    ['small=x; nothing=x', 'OVER', 'OK'],
  ]
  for (const [text, expected, globally] of table) {
    assert.equal(await codes(open(yaml).limiter, text, 1), expected, text)
    assert.equal(await codes(open(yaml, { quotaMode: true }).limiter, text, 1), globally, `${text}, globally`)
  }
})

/** Counts in memory, and records the hits of each call. */
function watchedCounters() {
  const batches: (readonly Hit[])[] = []
  const counting: Counting = {
    add(batch) {
      batches.push(batch)
      return Promise.resolve(batch.map(({ hits }) => hits))
    },
    admit: () => [],
  }
  return { counting, batches }
}

test('all hits of a call are counted in one batch, with their windows and expiries', async () => {
  const { counting, batches } = watchedCounters()
  const more = { counting, cacheKeyPrefix: 'p:', expirationJitterMaxSeconds: 10, random: () => 0.55 }
  const { limiter } = open(basic, more)
  const decision = await limiter.decide(request('user=a; path=/free; path=/watched #2; nothing=x; plan=gold'))
  assert.deepEqual(batches, [
    [
      {
        key: 'p:d_user_a_999960',
        hits: 1,
        expirySeconds: 60,
        jitterSeconds: 5,
        limit: 3,
        perSecond: false,
        leased: false,
      },
      {
        key: 'p:d_path_/watched_997200',
        hits: 2,
        expirySeconds: 3600,
        jitterSeconds: 5,
        limit: 1,
        perSecond: false,
        leased: false,
      },
      {
        key: 'p:d_plan_gold_999960',
        hits: 1,
        expirySeconds: 60,
        jitterSeconds: 5,
        limit: 100,
        perSecond: false,
        leased: false,
      },
    ],
  ])
  assert.deepEqual(
    decision.statuses.map(({ remaining }) => remaining),
    [2, 0xffffffff, 0, 0, 99],
  )
})

test('windows follow the clock', async () => {
  const { counting, batches } = watchedCounters()
  let now = 59
  const { limiter } = open(basic, { counting, clock: { nowMs: () => now * 1000, monotonicMs: () => 0 } })
  const resets: unknown[] = []
  for (now of [59, 60, 61, 59])
    resets.push((await limiter.decide(request('user=a'))).statuses[0]?.limit?.resetSeconds)
  assert.deepEqual(resets, [1, 60, 59, 1])
  const keys = batches.flat().map(({ key }) => key)
  assert.deepEqual(keys, ['d_user_a_0', 'd_user_a_60', 'd_user_a_60', 'd_user_a_0'])
})

test('a call without hits is answered synchronously', () => {
  const { limiter } = open(basic, { counting: watchedCounters().counting })
  assert.ok(!(limiter.decide(request('path=/free; nothing=x')) instanceof Promise))
  assert.ok(limiter.decide(request('user=a')) instanceof Promise)
})

test('a failure of the backend is the error of the call', async () => {
  const { limiter } = open(basic, {
    counting: { add: () => Promise.reject(new CountersError('CLUSTERDOWN')), admit: () => [] },
  })
  await assert.rejects(async () => limiter.decide(request('user=alice')), { message: 'CLUSTERDOWN' })
})

test('a key that is cached as over is over, and is counted separately', async () => {
  const { limiter, stats } = open(basic, {
    counting: { add: batch => batch.map(() => overLimitCached), admit: () => [] },
  })
  const decision = await limiter.decide(request('user=alice #2; path=/watched'))
  assert.deepEqual(
    decision.statuses.map(({ over, remaining }) => [over, remaining]),
    [
      [true, 0],
      [false, 0],
    ],
  )
  const value = (name: string) => stats.counter(`ratelimit.service.rate_limit.d.${name}`).value
  assert.deepEqual([value('user.over_limit'), value('user.over_limit_with_local_cache')], [2, 2])
  assert.deepEqual([value('path_/watched.shadow_mode'), value('path_/watched.near_limit')], [1, 0])
})

test('answers have headers and metadata when enabled', async () => {
  const yaml = `
domain: d
descriptors:
  - {key: user, metadata: {team: a}, rate_limit: {unit: minute, requests_per_unit: 3}}
  - {key: zero, metadata: {team: b}, rate_limit: {unit: minute, requests_per_unit: 0}}
  - {key: free, metadata: {team: c, free: true}, rate_limit: {unlimited: true}}
`
  const headerNames = { limit: 'L', remaining: 'R', reset: 'S' }
  const { limiter } = open(yaml, { headerNames, dynamicMetadata: true, shadowMode: true })
  const decision = await limiter.decide(request('free=x; user=alice; zero=x'))
  assert.equal(decision.over, false)
  assert.deepEqual(decision.headers, [
    { key: 'L', value: '0' },
    { key: 'R', value: '0' },
    { key: 'S', value: `${60 - (nowSeconds % 60)}` },
  ])
  assert.deepEqual(decision.metadata, {
    domain: 'd',
    descriptors: [{ entries: ['free=x'] }, { entries: ['user=alice'] }, { entries: ['zero=x'] }],
    metadata: { team: 'a' },
  })
})
