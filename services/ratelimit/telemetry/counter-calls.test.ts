import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createMemoryCounters } from '../counters/memory.ts'
import { createCounting } from '../limiter/counting.ts'
import { RuleLimiter } from '../limiter/limiter.ts'
import { compile } from '../rules/compile.ts'
import type { RateLimitPolicy } from '../rules/model.ts'
import { parseConfig, parseEntries } from '../rules/testing/rules-of-yaml.ts'
import { createLimitStats } from '../stats/limit-stats.ts'
import { createStats } from '../stats/stats.ts'
import { type CounterAction, callCounter } from './counter-calls.ts'

/** Opens a limiter with one rule for the key `user`, and the calls of its counters. */
function open(policy: Partial<RateLimitPolicy>, several?: readonly Partial<RateLimitPolicy>[]) {
  const clock = { nowMs: () => 1_000_030_000, monotonicMs: () => 1_000_030_000 }
  const stats = createStats()
  const limitStats = createLimitStats(stats, () => {})
  const config = parseConfig(
    '{domain: shop, descriptors: [{key: user, rate_limit: {unit: minute, requests_per_unit: 3}}]}',
  )
  const [rule] = config.descriptors
  assert.ok(rule?.rateLimit)
  const { rateLimit: first, ...matched } = rule
  const rateLimit = { ...first, ...policy }
  const limits = several?.map(each => ({ ...rateLimit, ...each }))
  const descriptors = [{ ...matched, ...(limits === undefined ? { rateLimit } : { limits }) }]
  const compiled = compile([{ ...config, descriptors }], {
    mergeDomainConfigs: false,
    attach: limitStats.attach,
  })
  const counters = createMemoryCounters({ clock })
  const limiter = new RuleLimiter({
    rules: () => compiled,
    stats,
    limitStats,
    clock,
    random: () => 0,
    cacheKeyPrefix: 'p_',
    counting: createCounting({
      counters,
      stopWhenOver: false,
      mode: 'error',
      local: counters,
      localShare: 1,
      onSuccess() {},
      onFailure() {},
    }),
    expirationJitterMaxSeconds: 0,
    nearLimitRatio: 0.8,
    shadowMode: false,
    quotaMode: false,
    dynamicMetadata: false,
  })
  const decide = (hitsAddend: number) =>
    limiter.decide({ domain: 'shop', descriptors: [{ entries: parseEntries('user=a') }], hitsAddend })
  const parts = { rules: () => compiled, counters, cacheKeyPrefix: 'p_', clock, canBeNegative: true }
  const call = async (action: CounterAction['do'], by = 0) => {
    const result = await callCounter(parts, 'shop', parseEntries('user=a'), {
      do: action,
      by,
    } as CounterAction)
    if (result.outcome !== 'ok') return result.outcome
    return result.counters.map(({ rule, value, limit }) => `${rule} ${value}/${limit}`).join()
  }
  return { decide, call }
}

test('the counter of a fixed window is that of the limiter', async () => {
  const { decide, call } = open({})
  await decide(2)
  assert.equal(await call('read'), 'shop.user 2/3')
  assert.equal(await call('raise', 5), 'shop.user -3/3')
  assert.equal(await call('reset'), 'shop.user 0/3')
  await decide(1)
  assert.equal(await call('read'), 'shop.user 1/3')
})

for (const algorithm of ['SlidingWindow', 'TokenBucket'] as const) {
  test(`a ${algorithm} is read, reset and raised`, async () => {
    const { decide, call } = open({ algorithm })
    await decide(2)
    assert.equal(await call('read'), 'shop.user 2/3')
    assert.equal(await call('raise', 1), 'shop.user 1/3')
    await decide(2)
    assert.equal(await call('read'), 'shop.user 3/3')
    assert.equal(await call('reset'), 'shop.user 0/3')
    await decide(1)
    assert.equal(await call('read'), 'shop.user 1/3')
  })
}

test('the holds of Concurrency are read, and a raise and a reset release them', async () => {
  const { decide, call } = open({
    ...{ algorithm: 'Concurrency', unit: '', requestsPerUnit: 0, maxConcurrent: 3, leaseSeconds: 60 },
  })
  await decide(2)
  await decide(1)
  assert.equal(await call('read'), 'shop.user 3/3')
  assert.equal(await call('raise', 2), 'shop.user 1/3')
  await decide(2)
  assert.equal(await call('reset'), 'shop.user 0/3')
  assert.equal(await call('raise', 1), 'shop.user 0/3', 'there is nothing to release')
})

test('a raise grants more than the limit to a sliding window, and fills a token bucket at most', async () => {
  const sliding = open({ algorithm: 'SlidingWindow' })
  assert.equal(await sliding.call('raise', 5), 'shop.user -5/3')
  await sliding.decide(3)
  await sliding.decide(3)
  assert.equal(await sliding.call('read'), 'shop.user 1/3')
  const bucket = open({ algorithm: 'TokenBucket' })
  assert.equal(await bucket.call('raise', 5), 'shop.user 0/3')
})

test('a counter of rejected hits is beyond its limit, until a raise', async () => {
  for (const algorithm of ['FixedWindow', 'SlidingWindow', 'TokenBucket'] as const) {
    const { decide, call } = open({}, [{ algorithm, countRejected: true }, { unit: 'hour' }])
    await decide(2)
    await decide(5)
    assert.equal(await call('read'), 'shop.user.0 7/3,shop.user.1 2/3', algorithm)
    assert.equal(await call('raise', 2), 'shop.user.0 5/3,shop.user.1 0/3', algorithm)
  }
})

test('every limit of a rule is reset and raised', async () => {
  const { decide, call } = open({}, [{ unit: 'minute' }, { unit: 'hour', algorithm: 'TokenBucket' }])
  await decide(3)
  assert.equal(await call('raise', 1), 'shop.user.0 2/3,shop.user.1 2/3')
  assert.equal(await call('reset'), 'shop.user.0 0/3,shop.user.1 0/3')
})
