import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createMemoryCounters } from '../counters/memory.ts'
import { compile } from '../rules/compile.ts'
import { makeLimit, makeRule } from '../rules/testing/make-rule.ts'
import { createLimitStats } from '../stats/limit-stats.ts'
import { createStats } from '../stats/stats.ts'
import { type LimiterOptions, RuleLimiter } from './limiter.ts'

/** A Thursday at 12:00:05 UTC. */
const nowSeconds = 43_205
const clock = { nowMs: () => nowSeconds * 1000, monotonicMs: () => 0 }

const rules = [
  makeRule('user', { rateLimit: makeLimit(1, 'minute', { name: 'per-user' }) }),
  makeRule('day', { rateLimit: makeLimit(9, 'day', { calendar: { timeZone: 'UTC' } }) }),
  makeRule('hidden', { rateLimit: makeLimit(1, 'minute', { name: 'secret', headers: false }) }),
  makeRule('free', { rateLimit: makeLimit(0, '', { unlimited: true }) }),
  makeRule('watched', { shadowMode: true, rateLimit: makeLimit(0, 'minute') }),
  makeRule('bucket', { rateLimit: makeLimit(1, 'minute', { algorithm: 'TokenBucket', burst: 2 }) }),
  makeRule('several', {
    limits: [
      makeLimit(2, 'second', { unitMultiplier: 15, name: 'fast' }),
      makeLimit(5, 'day'),
      makeLimit(0, 'day', { name: 'watched', shadowMode: true }),
    ],
  }),
]

function open(options: Partial<LimiterOptions>) {
  const stats = createStats()
  const limitStats = createLimitStats(stats, () => {})
  const domain = { name: 'd', domain: 'd', descriptors: rules }
  const compiled = compile([domain], { mergeDomainConfigs: false, attach: limitStats.attach })
  const limiter = new RuleLimiter({
    rules: () => compiled,
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
    ...options,
  })
  return async (...keys: readonly string[]) => {
    const descriptors = keys.map(key => ({ entries: [{ key, value: 'x' }] }))
    const { over, headers, body } = await limiter.decide({ domain: 'd', descriptors, hitsAddend: 1 })
    const lines = (headers ?? []).map(({ key, value }) => `${key}: ${value}`)
    return body === undefined ? { over, lines } : { over, lines, body: JSON.parse(body) }
  }
}

test('every limit of the request is listed, without unlimited ones', async () => {
  const ask = open({ ietfHeaders: true })
  assert.deepEqual(await ask('user', 'free', 'day', 'unknown', 'bucket'), {
    over: false,
    lines: [
      'RateLimit-Policy: "per-user";q=1;w=60, "1";q=9;w=86400, "2";q=1;w=60',
      'RateLimit: "per-user";r=0;t=55, "1";r=8;t=43195, "2";r=1;t=0',
    ],
  })
  assert.deepEqual(await ask('user', 'day'), {
    over: true,
    lines: [
      'RateLimit-Policy: "per-user";q=1;w=60, "1";q=9;w=86400',
      'RateLimit: "per-user";r=0;t=55, "1";r=7;t=43195',
      'Retry-After: 55',
    ],
  })
  assert.deepEqual(await ask('free'), { over: false, lines: [] })
})

test('several limits of a descriptor are listed, and only those that reject decide the wait', async () => {
  const ask = open({ ietfHeaders: true, problemDetails: true })
  for (const left of [1, 0]) {
    const { over, lines } = await ask('several')
    assert.equal(over, false)
    assert.match(`${lines[1]}`, new RegExp(`^RateLimit: "fast";r=${left};t=10, "1";r=${left + 3};t=43195, `))
  }
  const { over, lines, body } = await ask('several')
  assert.equal(over, true)
  assert.deepEqual(lines, [
    'RateLimit-Policy: "fast";q=2;w=15, "1";q=5;w=86400, "watched";q=0;w=86400',
    'RateLimit: "fast";r=0;t=10, "1";r=3;t=43195, "watched";r=0;t=43195',
    'Retry-After: 10',
    'Content-Type: application/problem+json',
  ])
  assert.deepEqual(body['violated-policies'], ['fast'])
})

test('a token bucket names the wait of the rejected call', async () => {
  const ask = open({ ietfHeaders: true })
  for (const left of [1, 0]) assert.match((await ask('bucket')).lines[1] ?? '', new RegExp(`r=${left};`))
  assert.deepEqual(await ask('bucket'), {
    over: true,
    lines: ['RateLimit-Policy: "0";q=1;w=60', 'RateLimit: "0";r=0;t=60', 'Retry-After: 60'],
  })
})

test('a limit without headers is in no form of headers', async () => {
  for (const options of [
    { ietfHeaders: true },
    { headerNames: { limit: 'L', remaining: 'R', reset: 'S' } },
  ]) {
    const ask = open(options)
    assert.deepEqual(await ask('hidden'), { over: false, lines: [] })
    assert.deepEqual(await ask('hidden'), { over: true, lines: [] })
  }
})

test('problem details also go with the headers of the reference, and with rejections only', async () => {
  const ask = open({ problemDetails: true, headerNames: { limit: 'L', remaining: 'R', reset: 'S' } })
  assert.deepEqual(await ask('user'), { over: false, lines: ['L: 1', 'R: 0', 'S: 55'] })
  assert.deepEqual(await ask('user', 'hidden'), {
    over: true,
    lines: ['L: 1', 'R: 0', 'S: 55', 'Content-Type: application/problem+json'],
    body: {
      type: 'https://iana.org/assignments/http-problem-types#quota-exceeded',
      title: 'Quota Exceeded',
      status: 429,
      'violated-policies': ['per-user'],
    },
  })
})

test('a call that the global shadow mode lets pass has neither a wait nor a body', async () => {
  const ask = open({ ietfHeaders: true, problemDetails: true, shadowMode: true })
  await ask('user')
  const { over, lines, body } = await ask('user')
  assert.deepEqual([over, lines.length, body], [false, 2, undefined])
  assert.deepEqual((await ask('watched')).lines.at(-1), 'RateLimit: "0";r=0;t=55')
})
