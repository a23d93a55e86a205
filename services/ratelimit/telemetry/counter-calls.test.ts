import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Budgets } from '../budgets.ts'
import { CountersError } from '../counters/counters.ts'
import { createMemoryCounters } from '../counters/memory.ts'
import { createCounting } from '../limiter/counting.ts'
import { RuleLimiter } from '../limiter/limiter.ts'
import { compile } from '../rules/compile.ts'
import type { RateLimitPolicy } from '../rules/model.ts'
import { parseConfig, parseEntries } from '../rules/testing/rules-of-yaml.ts'
import { createLimitStats } from '../stats/limit-stats.ts'
import { createStats } from '../stats/stats.ts'
import { type CounterAction, type CounterParts, callCounter } from './counter-calls.ts'

/** Opens a limiter with one rule for the key `user`, and the calls of its counters. */
function open(policy: Partial<RateLimitPolicy>, several?: readonly Partial<RateLimitPolicy>[]) {
  let nowMs = 1_000_030_000
  const clock = { nowMs: () => nowMs, monotonicMs: () => nowMs }
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
  const changed: string[] = []
  const parts = {
    ...{ rules: () => compiled, counters, cacheKeyPrefix: 'p_', clock, canBeNegative: true },
    onChange: (keys: readonly string[]) => changed.push(...keys),
  }
  const ask = (action: CounterAction, more: Partial<CounterParts> = {}) =>
    callCounter({ ...parts, ...more }, 'shop', parseEntries('user=a'), action)
  const call = async (action: CounterAction['do'], by = 0) => {
    const result = await ask({ do: action, by } as CounterAction)
    if (result.outcome !== 'ok') return result.outcome
    return result.counters.map(({ rule, value, limit }) => `${rule} ${value}/${limit}`).join()
  }
  const budgets = new Budgets({
    ...{ rules: () => compiled, reservations: counters.reservations, clock, cacheKeyPrefix: 'p_' },
    ...{ hasPerSecondBackend: false, shadowMode: false, nearLimitRatio: 0.8, onDecrease() {} },
  })
  const reserve = async (amount: number, ttlMs = 60_000) => {
    const descriptor = { entries: parseEntries('user=a') }
    const answer = await budgets.reserve({ domain: 'shop', descriptor, amount, ttlMs, requestId: '' })
    return answer.result === 'reservation' ? answer.id : assert.fail('rejected')
  }
  return { decide, ask, call, changed, counters, budgets, reserve, elapse: (ms: number) => (nowMs += ms) }
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

const twoLimits = [{ requestsPerUnit: 300 }, { unit: 'day', requestsPerUnit: 1000 }] as const

test('a read has what is reserved, with the ids that Reserve returned', async () => {
  const { ask, reserve, budgets, changed, elapse } = open({}, twoLimits)
  const read = async () => {
    const result = await ask({ do: 'read' })
    return result.outcome === 'ok' ? result.reservations : assert.fail(result.outcome)
  }
  assert.deepEqual(await read(), { count: 0, summed: 0, amount: 0, nextExpiryMs: undefined, first: [] })
  const last = { id: await reserve(5, 20_000), amount: 5, expiresAtMs: 1_000_050_000 }
  const first = { id: await reserve(2, 3_000), amount: 2, expiresAtMs: 1_000_033_000 }
  assert.deepEqual(await read(), {
    count: 2,
    summed: 2,
    amount: 7,
    nextExpiryMs: 1_000_033_000,
    first: [first, last],
  })
  assert.deepEqual(changed, [])
  elapse(3_000)
  assert.deepEqual(await read(), {
    count: 1,
    summed: 1,
    amount: 5,
    nextExpiryMs: 1_000_050_000,
    first: [last],
  })
  assert.equal(changed.length, 2, 'both limits count less')
  await budgets.release(last.id)
  for (let made = 0; made < 101; made++) await reserve(1, 20_000 - made)
  const many = await read()
  assert.deepEqual([many?.count, many?.amount, many?.first.length], [101, 101, 100])
  assert.deepEqual([many?.nextExpiryMs, many?.first[0]?.expiresAtMs], Array(2).fill(1_000_052_900))
})

test('a counter is read and reset if its reservations cannot be read, or if the backend has none', async () => {
  const { ask, decide, counters } = open({})
  await decide(2)
  const read = () => Promise.reject(new CountersError('NOPERM'))
  const failing = { ...counters, reservations: { ...counters.reservations, read } as never }
  const without = { add: counters.add, admit: counters.admit }
  for (const [of, problem] of [
    [failing, 'NOPERM'],
    [without, ''],
  ] as const) {
    for (const action of ['read', 'reset'] as const) {
      const result = await ask({ do: action }, { counters: of })
      assert.ok(result.outcome === 'ok')
      assert.deepEqual([result.reservations, result.reservationsProblem], [undefined, problem])
    }
  }
})

test('a reset releases the holds of reservations, which take no hold again', async () => {
  const { ask, call, decide, reserve, budgets } = open({
    ...{ algorithm: 'Concurrency', unit: '', requestsPerUnit: 0, maxConcurrent: 3, leaseSeconds: 60 },
  })
  const [released, extended] = [await reserve(1), await reserve(2)]
  const reset = await ask({ do: 'reset' })
  assert.ok(reset.outcome === 'ok')
  assert.deepEqual(
    [reset.counters[0]?.value, reset.reservations?.count, reset.reservations?.amount],
    [0, 2, 3],
  )
  await decide(3)
  await assert.rejects(
    async () => budgets.extend(extended, 60_000),
    /the reservation has ended: it is expired/,
  )
  await budgets.release(released)
  await budgets.commit(extended, 2)
  assert.equal(await call('read'), 'shop.user 3/3')
})
