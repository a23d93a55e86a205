import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Clock } from '@tollway/chassis/clock.ts'
import type { LimitCheck } from '../counters/admission/limit-check.ts'
import { CountersError } from '../counters/counters.ts'
import { createMemoryCounters } from '../counters/memory.ts'
import { compile } from '../rules/compile.ts'
import { algorithms } from '../rules/fields.ts'
import type { RateLimitDomain, RateLimitPolicy, RateLimitRule } from '../rules/model.ts'
import { makeLimit, makeRule } from '../rules/testing/make-rule.ts'
import { createLimitStats } from '../stats/limit-stats.ts'
import { createStats } from '../stats/stats.ts'
import { createCounting, type FailureMode } from './counting.ts'
import { type LimiterOptions, RuleLimiter } from './limiter.ts'
import { OverLimitCache } from './over-limit-cache.ts'

const limit = ({ requestsPerUnit = 60, unit = 'minute', ...more }: Partial<RateLimitPolicy> = {}) =>
  makeLimit(requestsPerUnit, unit, more)

const bucket = limit({ algorithm: 'TokenBucket', burst: 2 })

interface Opened extends Partial<LimiterOptions> {
  readonly mode?: FailureMode
  /** The message of the error with which the backend fails; if left out, it does not fail. */
  readonly failure?: string
}

/** Opens a limiter with these rules, counters in memory and a clock that `advance` advances. */
function open(
  descriptors: readonly RateLimitRule[],
  { mode = 'error', failure, ...more }: Opened = {},
  domain: Partial<RateLimitDomain> = {},
) {
  let nowMs = 960_000_000
  const clock: Clock = { nowMs: () => nowMs, monotonicMs: () => nowMs }
  const stats = createStats()
  const limitStats = createLimitStats(stats, () => {})
  const config = { name: 'd', domain: 'd', descriptors, ...domain }
  const rules = compile([config], { mergeDomainConfigs: false, attach: limitStats.attach })
  const memory = createMemoryCounters({ clock })
  const calls: (readonly LimitCheck[])[] = []
  const fail = () => Promise.reject(new CountersError(failure ?? ''))
  const limiter = new RuleLimiter({
    rules: () => rules,
    counting: createCounting({
      counters: {
        add: failure === undefined ? memory.add : fail,
        admit(members) {
          calls.push(members)
          return failure === undefined ? memory.admit(members) : fail()
        },
      },
      cache: new OverLimitCache(0),
      stopWhenOver: false,
      mode,
      local: createMemoryCounters({ clock }),
      localShare: 0.5,
      onSuccess() {},
      onFailure() {},
    }),
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
  const decide = async (text: string) => {
    const descriptors = text.split(' ').map(part => {
      const [pair = '', hits] = part.split('#')
      const [key = '', value = ''] = pair.split('=')
      const hitsAddend = hits === undefined ? undefined : Math.abs(Number(hits))
      return { entries: [{ key, value }], hitsAddend, givesBack: hits?.startsWith('-') === true }
    })
    return await limiter.decide({ domain: 'd', descriptors, hitsAddend: 0 })
  }
  return {
    decide,
    calls,
    advance(seconds: number) {
      nowMs += seconds * 1000
    },
    async codes(text: string, times: number) {
      const all: string[] = []
      for (let call = 0; call < times; call++) all.push((await decide(text)).over ? 'OVER' : 'OK')
      return all.join(' ')
    },
    statOf: (name: string) => stats.counter(`ratelimit.service.rate_limit.d.${name}`).value,
  }
}

test('a token bucket admits a burst, and then as fast as it drains', async () => {
  const { codes, decide, advance, calls } = open([makeRule('user', { rateLimit: bucket })])
  assert.equal(await codes('user=a', 3), 'OK OK OVER')
  advance(1)
  assert.equal(await codes('user=a', 2), 'OK OVER')
  const { statuses } = await decide('user=b')
  const currentLimit = { name: '', requestsPerUnit: 60, unit: 'minute', resetSeconds: 0 }
  assert.deepEqual(statuses, [{ over: false, remaining: 1, limit: currentLimit }])
  assert.equal(calls[0]?.[0]?.key, 'd_user_a_TokenBucket:60')
  assert.equal((await decide('user=a#5')).statuses[0]?.limit?.resetSeconds, undefined)
})

const inFlight = limit({
  algorithm: 'Concurrency',
  unit: '',
  maxConcurrent: 3,
  leaseSeconds: 30,
  name: 'in-flight',
})

test('Concurrency admits what runs at the same time, until it is given back or its lease is over', async () => {
  const { codes, decide, advance, calls, statOf } = open([makeRule('user', { rateLimit: inFlight })])
  assert.equal(await codes('user=a', 2), 'OK OK')
  advance(10)
  assert.equal(await codes('user=a#2', 1), 'OVER')
  const { statuses } = await decide('user=a')
  const currentLimit = { name: 'in-flight', requestsPerUnit: 3, unit: undefined }
  assert.deepEqual(statuses, [{ over: false, remaining: 0, limit: { ...currentLimit, resetSeconds: 20 } }])
  assert.equal(calls[0]?.[0]?.key, 'd_user_a_Concurrency')
  assert.equal((await decide('user=a')).statuses[0]?.limit?.resetSeconds, 20, 'the first hold ends then')
  assert.equal((await decide('user=a#4')).statuses[0]?.limit?.resetSeconds, undefined, 'never')
  assert.equal(await codes('user=a#0', 1), 'OVER')
  assert.equal((await decide('user=a#-1')).statuses[0]?.remaining, 1)
  assert.equal(await codes('user=a', 2), 'OK OVER')
  advance(20)
  // The second hold has ended; the other two are of 10 seconds later.
  assert.equal((await decide('user=a#0')).statuses[0]?.remaining, 1)
  advance(10)
  assert.equal((await decide('user=a#-9')).statuses[0]?.remaining, 3)
  assert.deepEqual([statOf('user.total_hits'), statOf('user.over_limit')], [12, 8])
})

test('Concurrency holds nothing of a call that another limit rejects, and a rejection is not cached', async () => {
  const day = limit({ unit: 'day', requestsPerUnit: 2, name: 'day' })
  const { codes, decide } = open([
    makeRule('user', { limits: [inFlight, day] }),
    makeRule('job', { rateLimit: inFlight }),
  ])
  assert.equal(await codes('user=a', 4), 'OK OK OVER OVER')
  assert.equal((await decide('user=a#-2')).over, false)
  // The day has two hits back, too: both limits give back.
  assert.equal(await codes('user=a#2', 1), 'OK')
  assert.equal(await codes('job=a', 4), 'OK OK OK OVER')
  await decide('job=a#-1')
  assert.equal(await codes('job=a', 2), 'OK OVER')
})

for (const algorithm of ['FixedWindow', 'SlidingWindow', 'TokenBucket'] as const) {
  test(`hits are given back to a ${algorithm}: never rejected, never below 0, in no statistics`, async () => {
    const rateLimit = limit({ algorithm, requestsPerUnit: 3 })
    const { decide, codes, statOf } = open([makeRule('user', { rateLimit })])
    assert.equal(await codes('user=a', 3), 'OK OK OK')
    assert.deepEqual((await decide('user=a#-2')).statuses[0]?.remaining, 2)
    assert.equal(await codes('user=a', 3), 'OK OK OVER')
    // A FixedWindow has counted the rejected hit.
    assert.equal(await codes('user=a#-1', 2), 'OK OK')
    assert.equal((await decide('user=a#-9')).statuses[0]?.remaining, 3)
    assert.equal(await codes('user=a#4', 1), 'OVER')
    assert.deepEqual(
      [statOf('user.total_hits'), statOf('user.over_limit')],
      [10, algorithm === 'FixedWindow' ? 2 : 5],
    )
  })
}

test('a descriptor that gives hits back does not vote, and keeps what it gave if another is over', async () => {
  const rules = [
    makeRule('quota', { quotaMode: true, rateLimit: limit({ requestsPerUnit: 1 }) }),
    makeRule('other', { rateLimit: limit({ requestsPerUnit: 1 }) }),
  ]
  const { codes, decide } = open(rules, {}, { allOrNothing: true })
  assert.equal(await codes('quota=a other=a', 2), 'OK OVER')
  assert.equal(await codes('quota=a#-1 other=a', 1), 'OVER')
  assert.equal((await decide('quota=a#0')).statuses[0]?.remaining, 1)
  const alone = open(rules)
  assert.equal(await alone.codes('quota=a', 2), 'OK OVER')
  assert.equal(await alone.codes('quota=a quota=b#-1', 1), 'OVER', 'the only quota that votes is over')
})

test('a failure rejects no call that gives hits back, except in the mode error', async () => {
  for (const mode of ['allow', 'deny', 'local'] as const) {
    for (const rateLimit of [limit(), bucket]) {
      const { codes } = open([makeRule('user', { rateLimit })], { mode, failure: 'away' })
      assert.equal(await codes('user=a#-1', 1), 'OK', mode)
    }
  }
})

test('a sliding window remembers the window before', async () => {
  const { codes, advance } = open([
    makeRule('user', { rateLimit: limit({ algorithm: 'SlidingWindow', requestsPerUnit: 2 }) }),
  ])
  assert.equal(await codes('user=a', 3), 'OK OK OVER')
  advance(60)
  assert.equal(await codes('user=a', 1), 'OVER')
  advance(30)
  assert.equal(await codes('user=a', 2), 'OK OVER')
})

test('a check of 0 hits counts nothing, and a rejection counts nothing', async () => {
  const { codes, decide, statOf } = open([makeRule('user', { rateLimit: bucket })])
  assert.equal(await codes('user=a#0', 5), 'OK OK OK OK OK')
  assert.equal(await codes('user=a', 4), 'OK OK OVER OVER')
  assert.equal((await decide('user=a#0')).over, true)
  const names = ['total_hits', 'within_limit', 'over_limit', 'near_limit']
  assert.deepEqual(
    names.map(name => statOf(`user.${name}`)),
    [4, 2, 2, 1],
  )
})

test('a rejection is cached until the call would be admitted', async () => {
  const { codes, advance, calls, statOf } = open([makeRule('user', { rateLimit: bucket })])
  assert.equal(await codes('user=a', 5), 'OK OK OVER OVER OVER')
  assert.equal(calls.length, 3)
  assert.equal(statOf('user.over_limit_with_local_cache'), 2)
  advance(1)
  assert.equal(await codes('user=a', 1), 'OK')
})

const several = makeRule('user', {
  limits: [
    limit({ name: 'burst', unit: 'second', unitMultiplier: 15, requestsPerUnit: 2 }),
    limit({ unit: 'day', requestsPerUnit: 3, algorithm: 'SlidingWindow' }),
  ],
})

test('several limits of a descriptor count a call together or not at all', async () => {
  const { codes, decide, advance, calls, statOf } = open([several])
  assert.equal(await codes('user=a', 4), 'OK OK OVER OVER')
  advance(15)
  const { statuses } = await decide('user=a')
  assert.equal(statuses[0]?.remaining, 0)
  assert.equal(statuses[0]?.limit?.unit, 'day')
  const rejected = (await decide('user=a')).statuses[0]
  assert.equal(rejected?.over, true)
  assert.equal(rejected?.limit?.requestsPerUnit, 3)
  const [fixed, sliding] = calls[0] ?? []
  assert.match(fixed?.key ?? '', /^\{[\w-]{22}\}:FixedWindow:15:\d+$/)
  assert.match(sliding?.key ?? '', /^\{[\w-]{22}\}:SlidingWindow:86400$/)
  assert.equal(fixed?.key.slice(0, 24), sliding?.key.slice(0, 24))
  const counts = (member: string) =>
    ['total_hits', 'within_limit', 'over_limit'].map(each => statOf(`user.${member}.${each}`))
  assert.deepEqual(counts('burst'), [6, 4, 2])
  assert.deepEqual(counts('1'), [6, 5, 1])
})

test('members with the same algorithm and window have counters of their own', async () => {
  const members = [limit({ requestsPerUnit: 5 }), limit({ requestsPerUnit: 2 })]
  const { codes, calls } = open([makeRule('user', { limits: members })])
  assert.equal(await codes('user=a', 3), 'OK OK OVER')
  assert.equal(new Set(calls[0]?.map(({ key }) => key)).size, 2)
})

test('a shadow member rejects no call, and a quota member rejects as a quota', async () => {
  const shadow = limit({ requestsPerUnit: 1, shadowMode: true })
  const first = open([makeRule('user', { limits: [shadow, limit({ unit: 'hour', requestsPerUnit: 3 })] })])
  assert.equal(await first.codes('user=a', 4), 'OK OK OK OVER')
  assert.deepEqual([first.statOf('user.0.shadow_mode'), first.statOf('user.0.over_limit')], [3, 3])
  const quota = limit({ requestsPerUnit: 1, quotaMode: true })
  const limits = [quota, limit({ unit: 'hour', requestsPerUnit: 5 })]
  const second = open([
    makeRule('user', { limits }),
    makeRule('other', { rateLimit: limit({}), quotaMode: true }),
  ])
  assert.equal(await second.codes('user=a other=b', 3), 'OK OK OK')
  assert.equal(await second.codes('user=a', 1), 'OVER')
})

test('the names of members can be replaced', async () => {
  const all = makeRule('all', {
    limits: [limit({ name: 'one', requestsPerUnit: 1 }), limit({ unit: 'hour', requestsPerUnit: 9 })],
  })
  const plan = makeRule('plan', { rateLimit: limit({ name: 'plan', replaces: ['one'] }) })
  const { codes } = open([all, plan])
  assert.equal(await codes('all=x plan=y', 3), 'OK OK OK')
  assert.equal(await codes('all=z', 2), 'OK OVER')
})

test('a rejected descriptor does not undo what others counted, unless the request is atomic', async () => {
  const rules = [
    makeRule('a', { rateLimit: limit({ requestsPerUnit: 1 }) }),
    makeRule('b', { rateLimit: bucket }),
  ]
  const plain = open(rules)
  assert.equal(await plain.codes('a=x b=y', 3), 'OK OVER OVER')
  assert.equal(await plain.codes('b=y', 1), 'OVER')
  const atomic = open(rules, {}, { allOrNothing: true })
  assert.equal(await atomic.codes('a=x b=y', 3), 'OK OVER OVER')
  assert.equal(await atomic.codes('b=y', 2), 'OK OVER')
  assert.equal(atomic.calls[0]?.length, 2)
})

test('equal descriptors of an atomic request are counted one after the other', async () => {
  for (const rateLimit of [
    limit({ requestsPerUnit: 3 }),
    limit({ requestsPerUnit: 3, algorithm: 'TokenBucket' }),
    limit({ requestsPerUnit: 3, algorithm: 'SlidingWindow' }),
  ]) {
    const { codes } = open([makeRule('user', { rateLimit })], {}, { allOrNothing: true })
    assert.equal(await codes('user=a user=a', 2), 'OK OVER')
    assert.equal(await codes('user=a', 2), 'OK OVER')
  }
})

const countRejected = true

/** For each algorithm, a limit of 100 that counts rejected hits. */
const budgets = algorithms
  .filter(algorithm => algorithm !== 'Concurrency')
  .map(algorithm => limit({ algorithm, unit: 'year', requestsPerUnit: 100, countRejected }))
const budgetRules: readonly (readonly [string, RateLimitRule, Partial<RateLimitDomain>])[] = [
  ...budgets.map(rateLimit => [`${rateLimit.algorithm}`, makeRule('user', { rateLimit }), {}] as const),
  ['limits', makeRule('user', { limits: budgets }), {}],
  ...budgets.map(
    rateLimit =>
      [
        `${rateLimit.algorithm} with allOrNothing`,
        makeRule('user', { rateLimit }),
        { allOrNothing: true },
      ] as const,
  ),
]

for (const [title, rule, domain] of budgetRules) {
  test(`costs that are reported after their call use up a budget: ${title}`, async () => {
    const { decide } = open([rule], {}, domain)
    const codes: number[] = []
    for (let call = 0; call < 6; call += 1) {
      const { over } = await decide('user=a#0')
      codes.push(over ? 429 : 200)
      if (!over) await decide('user=a#30')
    }
    assert.deepEqual(codes, [200, 200, 200, 200, 429, 429])
  })
}

test('a cost beyond the limit delays the next call by exactly its debt', async () => {
  const { decide, advance } = open([makeRule('user', { rateLimit: { ...bucket, countRejected } })])
  const answer = async (text: string) => {
    const { over, remaining, limit } = (await decide(text)).statuses[0] ?? {}
    return [over, remaining, limit?.resetSeconds]
  }
  assert.deepEqual(
    await answer('user=a#7'),
    [true, 0, undefined],
    'it exceeds the burst, and has no Retry-After',
  )
  assert.deepEqual(await answer('user=a#0'), [true, 0, 6])
  assert.deepEqual(
    await answer('user=a'),
    [true, 0, 7],
    'this rejected call counts, and the local cache is not used',
  )
  advance(6)
  assert.deepEqual(await answer('user=a#0'), [true, 0, 1])
  advance(1)
  assert.deepEqual(await answer('user=a#0'), [false, 1, 0])
})

test('the wait is that of the limit which has no room for the same call any more, and may have admitted it', async () => {
  const slow = limit({ algorithm: 'TokenBucket', requestsPerUnit: 30, burst: 10, countRejected })
  const rejecting = { ...bucket, name: 'rejecting' }
  for (const pause of [3, 4]) {
    const { decide, advance } = open([makeRule('user', { limits: [slow, rejecting] })], { ietfHeaders: true })
    const waits: (number | undefined)[] = []
    let retryAfter: string | undefined
    for (let call = 0; call < 5; call += 1) {
      const { statuses, headers = [] } = await decide('user=a#2')
      waits.push(statuses[0]?.limit?.resetSeconds)
      retryAfter = headers.find(({ key }) => key === 'Retry-After')?.value
    }
    // The bucket of 2 has room after 2 s. The bucket of 10 has admitted all five calls and is full after
    // them.
    assert.deepEqual(waits.slice(1), [2, 2, 2, 4])
    assert.equal(retryAfter, '4')
    advance(pause)
    assert.equal((await decide('user=a#2')).over, pause < 4)
  }
})

test('a rejected call counts in the limits with countRejected, and in no other', async () => {
  const counting = limit({ requestsPerUnit: 9, countRejected })
  const small = limit({ requestsPerUnit: 2, unit: 'hour', algorithm: 'SlidingWindow' })
  const shadow = limit({ requestsPerUnit: 1, unit: 'day', shadowMode: true, countRejected })
  const together = open([makeRule('user', { limits: [counting, small, shadow] })])
  assert.equal(await together.codes('user=a', 4), 'OK OK OVER OVER')
  const left = together.calls.length
  await together.decide('user=a#0')
  assert.deepEqual(
    together.calls[left]?.map(({ countRejected, shadow }) => [countRejected, shadow]),
    [
      [true, false],
      [false, false],
      [true, true],
    ],
  )
  const rules = [makeRule('a', { rateLimit: counting }), makeRule('b', { rateLimit: small })]
  const atomic = open(rules, {}, { allOrNothing: true })
  assert.equal(await atomic.codes('a=x b=y', 4), 'OK OK OVER OVER')
  assert.equal((await atomic.decide('a=x#0')).statuses[0]?.remaining, 5)
  assert.equal((await atomic.decide('b=y#0')).statuses[0]?.remaining, 0)
  assert.equal((await atomic.decide('b=z b=z b=z b=y#0')).over, true)
  assert.equal((await atomic.decide('b=z#0')).statuses[0]?.remaining, 2, 'b does not count rejected calls')
})

test('without the backend, calls are answered as the failure mode says', async () => {
  const rules = [makeRule('user', { rateLimit: limit({ algorithm: 'TokenBucket', burst: 4 }) })]
  const codesOf = (mode: FailureMode) => open(rules, { mode, failure: 'away' }).codes('user=a', 3)
  assert.equal(await codesOf('allow'), 'OK OK OK')
  assert.equal(await codesOf('deny'), 'OVER OVER OVER')
  assert.equal(await codesOf('local'), 'OK OK OVER')
  const counting = [makeRule('user', { rateLimit: { ...bucket, burst: 4, countRejected } })]
  const local = open(counting, { mode: 'local', failure: 'away' })
  assert.equal(await local.codes('user=a', 4), 'OK OK OVER OVER')
  local.advance(4)
  // With half of the limit, two of the four hits have drained after 4 s. One more hit has no room.
  assert.equal(await local.codes('user=a#0', 1), 'OVER')
  local.advance(2)
  assert.equal(await local.codes('user=a#0', 1), 'OK')
  await assert.rejects(codesOf('error'), { message: 'away' })
})
