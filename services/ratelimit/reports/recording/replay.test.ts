import assert from 'node:assert/strict'
import { test } from 'node:test'
import { create, toBinary } from '@bufbuild/protobuf'
import { RateLimitConfigSchema, RateLimitUnit } from '@tollway/proto/ratelimit/config/ratelimit/v3/rls_conf'
import fc from 'fast-check'
import { createMemoryCounters } from '../../counters/memory.ts'
import { createCounting } from '../../limiter/counting.ts'
import type { DecisionObserver } from '../../limiter/decision-observer.ts'
import { RuleLimiter } from '../../limiter/limiter.ts'
import { compile } from '../../rules/compile.ts'
import { configOf, entriesOf } from '../../rules/testing/rules-of-yaml.ts'
import { createLimitStats } from '../../stats/registry/limit-stats.ts'
import { createStats } from '../../stats/registry/stats.ts'
import { createCallRecording, type RecordingLimits } from './call-recording.ts'
import { replay } from './replay.ts'

const numRuns = Number(process.env['FC_RUNS'] ?? 100)
const settings = { nearLimitRatio: 0.8, shadowMode: false, quotaMode: false, mergeDomainConfigs: false }
const algorithms = ['FixedWindow', 'SlidingWindow', 'TokenBucket'] as const

interface Load {
  readonly algorithm: (typeof algorithms)[number]
  readonly limit: number
  readonly countRejected: boolean
  /** The number of the key of each call, and the seconds since the call before. */
  readonly calls: readonly (readonly [number, number])[]
}

/** Decides the calls, and returns the decisions of each key with the recording. */
async function decideAll({ algorithm, limit, countRejected, calls }: Load, limits?: RecordingLimits) {
  let nowMs = 1_000_030_000
  const clock = { nowMs: () => nowMs, monotonicMs: () => nowMs }
  const stats = createStats()
  const limitStats = createLimitStats(stats, () => {})
  const config = configOf(
    `{domain: shop, descriptors: [{key: user, rate_limit: {unit: minute, requests_per_unit: ${limit}}}]}`,
  )
  const [rule] = config.descriptors
  assert.ok(rule?.rateLimit)
  const descriptors = [{ ...rule, rateLimit: { ...rule.rateLimit, algorithm, countRejected } }]
  const { attach } = limitStats
  const rules = compile([{ ...config, descriptors }], { mergeDomainConfigs: false, attach })
  const recording = createCallRecording(16 * 1024 * 1024, limits)
  const byKey = new Map<string, { allowed: number; refused: number }>()
  const observer: DecisionObserver = {
    decided(request, _, statuses, nowSeconds) {
      recording.record(request, nowSeconds)
      const value = request.descriptors[0]?.entries[0]?.value ?? ''
      const { allowed, refused } = byKey.get(value) ?? { allowed: 0, refused: 0 }
      const over = Number(statuses[0]?.over === true)
      byKey.set(value, { allowed: allowed + 1 - over, refused: refused + over })
    },
  }
  const counters = createMemoryCounters({ clock })
  const limiter = new RuleLimiter({
    ...{ rules: () => rules, stats, limitStats, clock, random: () => 0, cacheKeyPrefix: '' },
    counting: createCounting({
      ...{ counters, stopWhenOver: false, mode: 'error', local: counters, localShare: 1 },
      onSuccess() {},
      onFailure() {},
    }),
    ...{ ...settings, expirationJitterMaxSeconds: 0, dynamicMetadata: false, observation: { observer } },
  })
  for (const [key, laterSeconds] of calls) {
    nowMs += laterSeconds * 1000
    await limiter.decide({
      domain: 'shop',
      descriptors: [{ entries: entriesOf(`user=${key}`) }],
      hitsAddend: 0,
    })
  }
  return { rules, recording, byKey }
}

/** Replays the recording with the active rules, and with a fixed window of this limit. */
async function replayAll(
  { rules, recording }: Pick<Awaited<ReturnType<typeof decideAll>>, 'rules' | 'recording'>,
  limit: number,
) {
  const rateLimit = { unit: RateLimitUnit.MINUTE, requestsPerUnit: limit }
  const resource = create(RateLimitConfigSchema, {
    ...{ name: 'shop', domain: 'shop', descriptors: [{ key: 'user', rateLimit }] },
  })
  const { signal } = new AbortController()
  const parts = {
    settings,
    rules: () => rules,
    calls: () => recording.of('shop'),
    decisions: () => recording.calls,
    onProgress() {},
    signal,
  }
  const encoded = toBinary(RateLimitConfigSchema, resource)
  const result = await replay({ domain: 'shop', resource: encoded, processes: 1 }, parts)
  assert.ok('now' in result, JSON.stringify(result))
  return result
}

/** At most 16 equal calls of a second are replayed one by one. */
const calls = fc.array(fc.tuple(fc.nat({ max: 20 }), fc.constantFrom(1, 5, 40)), {
  minLength: 1,
  maxLength: 120,
})
const load = fc.record({
  algorithm: fc.constantFrom(...algorithms),
  limit: fc.integer({ min: 1, max: 6 }),
  countRejected: fc.boolean(),
  calls,
})

test('the replay of a full recording decides as the limiter did', async () => {
  await fc.assert(
    fc.asyncProperty(load, async one => {
      const decided = await decideAll(one)
      const { now, proposed, keys, coverage } = await replayAll(decided, one.limit)
      const all = sum([...decided.byKey.values()])
      assert.deepEqual(now, [{ rule: 'shop.user', ...all }])
      const { recorded, calls: total, share } = coverage
      assert.deepEqual([recorded, total, share], [one.calls.length, one.calls.length, 1])
      if (one.algorithm !== 'FixedWindow') return
      assert.deepEqual(proposed, now)
      assert.deepEqual(keys, [])
    }),
    { numRuns },
  )
})

test('the replay of a sampled recording decides every recorded key as the limiter did', async () => {
  let sampled = 0
  await fc.assert(
    fc.asyncProperty(load, fc.integer({ min: 1, max: 4 }), async (one, laterSeconds) => {
      const together = one.calls.map(([key], index) => [key, index % 8 === 0 ? laterSeconds : 0] as const)
      const decided = await decideAll({ ...one, calls: together }, { callsPerSecond: 4, seconds: 60 })
      const { now, coverage } = await replayAll(decided, one.limit)
      const recorded = new Set<string>()
      for (const { call } of decided.recording.of('shop').records()) {
        if (call !== undefined) recorded.add(call.request.descriptors[0]?.entries[0]?.value ?? '')
      }
      const expected = sum([...decided.byKey].flatMap(([key, counts]) => (recorded.has(key) ? counts : [])))
      assert.deepEqual(now[0] ?? { rule: 'shop.user', ...sum([]) }, { rule: 'shop.user', ...expected })
      assert.equal(coverage.recorded, expected.allowed + expected.refused)
      assert.equal(coverage.calls, together.length)
      if (coverage.share < 1) sampled += 1
    }),
    { numRuns },
  )
  assert.ok(sampled > numRuns / 10, `${sampled} of ${numRuns} recordings were sampled`)
})

test('the process decides calls all the time while a replay runs', async t => {
  const keys = Array.from({ length: 20_000 }, (_, key) => [key, key % 400 === 0 ? 1 : 0] as const)
  const { rules, recording } = await decideAll({
    algorithm: 'FixedWindow',
    countRejected: false,
    limit: 1,
    calls: keys,
  })
  const stretches: number[] = []
  let before = process.threadCpuUsage()
  const turns = setInterval(() => {
    const { user, system } = process.threadCpuUsage(before)
    before = process.threadCpuUsage()
    stretches.push((user + system) / 1000)
    recording.record(
      { domain: 'other', descriptors: [{ entries: entriesOf('user=1') }], hitsAddend: 0 },
      1_000_100,
    )
  }, 1)
  t.after(() => clearInterval(turns))
  await replayAll({ rules, recording }, 2)
  // The time of the CPU, so that other programs do not count. A slice takes 0.5 ms of work.
  const [median = 0] = stretches.sort((a, b) => a - b).slice(stretches.length / 2)
  assert.ok(stretches.length > 20, `${stretches.length} turns`)
  assert.ok(median < 5, `the median turn took ${median} ms`)
})

function sum(counts: readonly { readonly allowed: number; readonly refused: number }[]) {
  return {
    allowed: counts.reduce((total, { allowed }) => total + allowed, 0),
    refused: counts.reduce((total, { refused }) => total + refused, 0),
  }
}
