import assert from 'node:assert/strict'
import { test } from 'node:test'
import { create, toBinary } from '@bufbuild/protobuf'
import { createSlices } from '@tollway/chassis/slices.ts'
import { RateLimitConfigSchema, RateLimitUnit } from '@tollway/proto/ratelimit/config/ratelimit/v3/rls_conf'
import fc from 'fast-check'
import { createMemoryCounters } from '../../counters/memory.ts'
import { createCounting } from '../../limiter/counting.ts'
import type { DecisionObserver } from '../../limiter/decision.ts'
import { RuleLimiter } from '../../limiter/limiter.ts'
import { compile } from '../../rules/compile.ts'
import { makeLimit } from '../../rules/testing/make-rule.ts'
import { parseConfig, parseEntries } from '../../rules/testing/rules-of-yaml.ts'
import { createLimitStats } from '../../stats/limit-stats.ts'
import { createStats } from '../../stats/stats.ts'
import { createPartCipher, readPart, takePart } from './call-parts.ts'
import { CallRecording } from './call-recording.ts'
import { MergedCalls, type ReplayedCalls } from './merged-calls.ts'
import { replay } from './replay.ts'
import { RuleHits, type RuleHitsEstimate } from './rule-hits.ts'

const numRuns = Number(process.env['FC_RUNS'] ?? 100)
const settings = {
  nearLimitRatio: 0.8,
  shadowMode: false,
  quotaMode: false,
  mergeDomainConfigs: false,
  stopIncrementWhenOverLimit: false,
}
const algorithms = ['FixedWindow', 'SlidingWindow', 'TokenBucket', 'Concurrency'] as const

interface Load {
  readonly algorithm: (typeof algorithms)[number]
  readonly limit: number
  readonly countRejected?: boolean
  /** For each call, the number of its key, and the milliseconds since the call before. */
  readonly calls: readonly (readonly [number, number])[]
}

interface Recorder {
  readonly limits?: ConstructorParameters<typeof CallRecording>[2]
  /** Returns the number of the process that decides a call; undefined for a call that is not recorded. */
  readonly processOf?: (call: number) => number | undefined
}

const startMs = 1_000_030_000

/** Decides the calls. Returns the decisions of each key that are recorded, and the recordings. */
async function decideAll(
  { algorithm, limit, countRejected = false, calls }: Load,
  { limits, processOf = () => 0 }: Recorder = {},
) {
  let nowMs = startMs
  let call = 0
  const clock = { nowMs: () => nowMs, monotonicMs: () => nowMs }
  const stats = createStats()
  const limitStats = createLimitStats(stats, () => {})
  const config = parseConfig(
    `{domain: shop, descriptors: [{key: user, rate_limit: {unit: minute, requests_per_unit: ${limit}}}]}`,
  )
  const [rule] = config.descriptors
  assert.ok(rule?.rateLimit)
  const rateLimit =
    algorithm === 'Concurrency'
      ? {
          ...makeLimit(0, '', { algorithm, maxConcurrent: limit, leaseSeconds: 30 }),
          requestsPerUnit: undefined,
        }
      : { ...rule.rateLimit, algorithm, countRejected }
  const descriptors = [{ ...rule, rateLimit }]
  const { attach } = limitStats
  const rules = compile([{ ...config, descriptors }], { mergeDomainConfigs: false, attach })
  const recordings = [0, 1, 2].map(() => new CallRecording(16 * 1024 * 1024, startMs / 1000, limits))
  const byKey = new Map<string, { allowed: number; refused: number }>()
  const observer: DecisionObserver = {
    decided(request, _, statuses, decidedMs) {
      const process = processOf(call)
      if (process === undefined) return
      recordings[process]?.record(request, decidedMs)
      const value = request.descriptors[0]?.entries[0]?.value ?? ''
      const { allowed, refused } = byKey.get(value) ?? { allowed: 0, refused: 0 }
      const over = Number(statuses[0]?.over === true)
      byKey.set(value, { allowed: allowed + 1 - over, refused: refused + over })
    },
  }
  const counters = createMemoryCounters({ clock })
  const limiter = new RuleLimiter({
    rules: () => rules,
    stats,
    limitStats,
    clock,
    random: () => 0,
    cacheKeyPrefix: '',
    counting: createCounting({
      counters,
      stopWhenOver: false,
      mode: 'error',
      local: counters,
      localShare: 1,
      onSuccess() {},
      onFailure() {},
    }),
    ...settings,
    expirationJitterMaxSeconds: 0,
    dynamicMetadata: false,
    observation: { observer },
  })
  for (const [index, [key, laterMs]] of calls.entries()) {
    call = index
    nowMs += laterMs
    await limiter.decide({
      domain: 'shop',
      descriptors: [{ entries: parseEntries(`user=${key}`) }],
      hitsAddend: 0,
    })
  }
  const [recording] = recordings
  assert.ok(recording)
  return { rules, recording, recordings, byKey }
}

interface Replayed extends Pick<Awaited<ReturnType<typeof decideAll>>, 'rules' | 'recording'> {
  readonly calls?: ReplayedCalls
  readonly fromMs?: number
}

/**
 * Replays the recording with the active rules, and with a fixed window of this limit as the proposed ones.
 */
async function replayAll(
  { rules, recording, calls, fromMs = 0 }: Replayed,
  limit: number,
  more: {
    readonly value?: string
    readonly match?: { regex: string }
    readonly shareThreshold?: boolean
  } = {},
) {
  const rateLimit = { unit: RateLimitUnit.MINUTE, requestsPerUnit: limit }
  const resource = create(RateLimitConfigSchema, {
    name: 'shop',
    domain: 'shop',
    descriptors: [{ key: 'user', rateLimit, ...more }],
  })
  const { signal } = new AbortController()
  const parts = {
    settings,
    rules: () => rules,
    calls: calls ?? recording.of('shop'),
    signal,
    decisions: () => recording.calls,
    onProgress() {},
  }
  const encoded = toBinary(RateLimitConfigSchema, resource)
  const result = await replay({ domain: 'shop', resource: encoded, fromMs }, parts)
  assert.ok('now' in result, JSON.stringify(result))
  return result
}

/** Merges the recordings in this much memory, from parts that one process sends to another. */
async function merge(recordings: readonly CallRecording[], bytes = 1024 * 1024): Promise<ReplayedCalls> {
  const slices = createSlices()
  const epochSeconds = startMs / 1000 - 60
  const merged = new MergedCalls({ domain: 'shop', bytes, halvings: 0, epochSeconds, slices })
  const { encrypt, decrypt } = createPartCipher('salt')
  for (const recording of recordings) {
    const reading = recording.of('shop').records()
    for (let isLast = false; !isLast; ) {
      const part = takePart(reading)
      isLast = part.isLast
      await merged.add(readPart(decrypt(encrypt(part.calls)), 'shop'))
    }
  }
  return merged.inOrder()
}

const calls = fc.array(fc.tuple(fc.nat({ max: 20 }), fc.constantFrom(0, 1, 700, 5_000, 40_000)), {
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
      assert.deepEqual(hitsOf(now), [{ rule: 'shop.user', ...all }])
      const { recorded, earlier, share } = coverage
      assert.deepEqual([recorded, earlier, share], [one.calls.length, 0, 1])
      if (one.algorithm !== 'FixedWindow') return
      assert.deepEqual(proposed, now)
      assert.deepEqual(keys, [])
    }),
    { numRuns },
  )
})

test('a replay proposes rules with match', async () => {
  const users = 10
  const decided = await decideAll({
    algorithm: 'FixedWindow',
    limit: 2,
    calls: Array.from({ length: users }, (_, user) => [user, 0]),
  })
  const shared = { value: 'all', match: { regex: '.*[0-9]' }, shareThreshold: true }
  const { now, proposed } = await replayAll(decided, 3, shared)
  assert.deepEqual(hitsOf(now), [{ rule: 'shop.user', allowed: users, refused: 0 }])
  assert.deepEqual(hitsOf(proposed), [{ rule: 'shop.user_all', allowed: 3, refused: users - 3 }])
})

test('the replay of a sampled recording decides every recorded key as the limiter did', async () => {
  let sampled = 0
  await fc.assert(
    fc.asyncProperty(load, fc.integer({ min: 1, max: 4 }), async (one, laterSeconds) => {
      const together = one.calls.map(
        ([key], index) => [key, index % 8 === 0 ? laterSeconds * 1000 : 0] as const,
      )
      const decided = await decideAll(
        { ...one, calls: together },
        { limits: { callsPerSecond: 4, seconds: 60 } },
      )
      const { now, coverage } = await replayAll(decided, one.limit)
      const recorded = new Set<string>()
      for (const { call } of decided.recording.of('shop').records()) {
        if (call !== undefined) recorded.add(call.request.descriptors[0]?.entries[0]?.value ?? '')
      }
      const expected = sum([...decided.byKey].flatMap(([key, counts]) => (recorded.has(key) ? counts : [])))
      const scaled = {
        allowed: expected.allowed / coverage.share,
        refused: expected.refused / coverage.share,
      }
      assert.deepEqual(hitsOf(now)[0] ?? { rule: 'shop.user', ...sum([]) }, { rule: 'shop.user', ...scaled })
      assert.equal(coverage.recorded, expected.allowed + expected.refused)
      if (coverage.share < 1) sampled += 1
    }),
    { numRuns },
  )
  assert.ok(sampled > numRuns / 10, `${sampled} of ${numRuns} recordings were sampled`)
})

test('the merged recordings of three processes are replayed as their one counter has decided', async () => {
  await fc.assert(
    fc.asyncProperty(load, fc.infiniteStream(fc.nat({ max: 2 })), async (one, processes) => {
      const of = [...processes.take(one.calls.length)]
      const decided = await decideAll(one, { processOf: call => of[call] })
      const merged = await merge(decided.recordings)
      const { now, coverage } = await replayAll({ ...decided, calls: merged }, one.limit)
      assert.deepEqual(hitsOf(now), [{ rule: 'shop.user', ...sum([...decided.byKey.values()]) }])
      assert.deepEqual([coverage.recorded, coverage.share], [one.calls.length, 1])
    }),
    { numRuns },
  )
})

test('if the memory of a merge is full, each key has all its calls of all processes or none', async () => {
  const calls = Array.from({ length: 6_000 }, (_, call) => [(call * 7) % 1_500, call % 10] as const)
  const one = { algorithm: 'FixedWindow', limit: 3, calls } as const
  const decided = await decideAll(one, { processOf: call => call % 3 })
  const merged = await merge(decided.recordings, 64 * 1024)
  const seen = new Map<string, number>()
  let lastMs = 0
  for (const { call } of merged.records()) {
    const key = call?.request.descriptors[0]?.entries[0]?.value ?? ''
    seen.set(key, (seen.get(key) ?? 0) + (call?.count ?? 0))
    assert.ok(lastMs <= (call?.ms ?? 0), 'the calls are in the order of their times')
    lastMs = call?.ms ?? 0
  }
  assert.ok(merged.halvings >= 2 && seen.size > 20, `${merged.halvings} halvings, ${seen.size} keys`)
  for (const [key, count] of seen) assert.equal(count, 4, key)
})

test('the rejected hits are within their bounds, whatever was counted before the recording', async () => {
  let inexact = 0
  await fc.assert(
    fc.asyncProperty(load, fc.nat({ max: 60 }), async (one, earlier) => {
      const decided = await decideAll(one, { processOf: call => (call < earlier ? undefined : 0) })
      const beganMs = one.calls.slice(0, earlier + 1).reduce((ms, [, laterMs]) => ms + laterMs, startMs)
      const { now } = await replayAll({ ...decided, fromMs: beganMs }, one.limit)
      const real = sum([...decided.byKey.values()])
      const { refusedAtLeast = 0, refusedAtMost = 0 } = now[0] ?? {}
      assert.ok(
        refusedAtLeast <= real.refused && real.refused <= refusedAtMost,
        JSON.stringify({ real, now }),
      )
      if (refusedAtLeast < refusedAtMost) inexact += 1
    }),
    { numRuns },
  )
  assert.ok(inexact < numRuns, 'the bounds can be equal')
})

test('the hits of sampled keys are divided by their share, within the bounds in most cases', async () => {
  const trials = 60
  let within = 0
  for (let trial = 0; trial < trials; trial++) {
    // 80 of 400 users make half of the calls.
    const calls = Array.from({ length: 3_000 }, (_, call) => {
      const user = call % 2 === 0 ? (call / 2) % 80 : 80 + (call % 320)
      return [1_000 * trial + user, call === 0 ? 30_000 : 1] as const
    })
    const decided = await decideAll({ algorithm: 'FixedWindow', limit: 3, calls })
    const all = decided.recording.of('shop')
    const calls8 = { length: all.length, halvings: 3, records: () => all.records(3) }
    const { now, coverage } = await replayAll({ ...decided, calls: calls8 }, 3)
    const real = sum([...decided.byKey.values()]).refused
    const { refused = 0, refusedAtLeast = 0, refusedAtMost = 0 } = now[0] ?? {}
    assert.ok(coverage.share === 1 / 8 && refused % 8 === 0, `${coverage.share}, ${refused}`)
    if (refusedAtLeast <= real && real <= refusedAtMost) within += 1
  }
  assert.ok(within > 0.9 * trials, `${within} of ${trials}`)
})

test('a rule that names all values has one key, whose hits are those of all', async () => {
  const rules = new RuleHits(0)
  const entries = parseEntries('path=/pay')
  for (const configuredKey of ['shop.path_/pay', 'shop.path']) {
    const limit = { configuredKey, unitSeconds: 60, requestsPerUnit: 1 } as Parameters<
      RuleHits['add']
    >[0]['limit']
    rules.add({ limit, baseKey: 'baseKey', domain: 'shop', entries, nowMs: 60_000, hits: 10, refused: 4 })
  }
  const [any, one] = rules.all(1 / 4)
  assert.deepEqual([any?.allowed, any?.refused, one?.allowed, one?.refused], [24, 16, 6, 4])
  assert.deepEqual([one?.refusedAtLeast, one?.refusedAtMost], [4, 4])
  assert.deepEqual([any?.refusedAtLeast, any?.refusedAtMost], [4, 110])
})

test('calls of one millisecond are replayed in the order of recording, also by another process', async () => {
  const decided = await decideAll({ algorithm: 'SlidingWindow', limit: 2, calls: [] })
  const entries = parseEntries('user=1')
  const call = (hitsAddend: number, givesBack = false) =>
    decided.recording.record(
      { domain: 'shop', descriptors: [{ entries, hitsAddend, givesBack }], hitsAddend: 0 },
      startMs,
    )
  for (let times = 0; times < 3; times++) {
    call(1)
    call(1, true)
  }
  call(1)
  // Only with the calls of one hit before it, it is one too many.
  call(2)
  call(1)
  const { now } = await replayAll(decided, 2)
  assert.deepEqual(hitsOf(now), [{ rule: 'shop.user', allowed: 5, refused: 2 }])
  const merged = await replayAll({ ...decided, calls: await merge([decided.recording]) }, 2)
  assert.deepEqual(merged.now, now)
})

test('calls before the time of the question fill the counters, and are not counted', async () => {
  const calls = [0, 1, 1, 1].map(ms => [1, ms] as const)
  const decided = await decideAll({ algorithm: 'FixedWindow', limit: 3, calls })
  const { now, keys, coverage } = await replayAll({ ...decided, fromMs: startMs + 2 }, 1)
  assert.deepEqual(hitsOf(now), [{ rule: 'shop.user', allowed: 1, refused: 1 }])
  assert.deepEqual([keys[0]?.hits, keys[0]?.refusedProposed], [2, 2])
  assert.deepEqual(coverage, { recorded: 2, earlier: 2, share: 1, firstMs: startMs + 2 })
})

test('the process decides calls all the time while a replay runs', async t => {
  const keys = Array.from({ length: 20_000 }, (_, key) => [key, key % 400 === 0 ? 1000 : 0] as const)
  const { rules, recording } = await decideAll({ algorithm: 'FixedWindow', limit: 1, calls: keys })
  const stretches: number[] = []
  let before = process.threadCpuUsage()
  const turns = setInterval(() => {
    const { user, system } = process.threadCpuUsage(before)
    before = process.threadCpuUsage()
    stretches.push((user + system) / 1000)
    recording.record(
      { domain: 'other', descriptors: [{ entries: parseEntries('user=1') }], hitsAddend: 0 },
      1_000_100_000,
    )
  }, 1)
  t.after(() => clearInterval(turns))
  await replayAll({ rules, recording }, 2)
  // Measured as time of the CPU, so that other programs do not count. A slice takes 0.5 ms of work.
  const [median = 0] = stretches.sort((a, b) => a - b).slice(stretches.length / 2)
  assert.ok(stretches.length > 20, `${stretches.length} turns`)
  assert.ok(median < 5, `the median turn took ${median} ms`)
})

const hitsOf = (rules: readonly RuleHitsEstimate[]) =>
  rules.map(({ rule, allowed, refused }) => ({ rule, allowed, refused }))

function sum(counts: readonly { readonly allowed: number; readonly refused: number }[]) {
  return {
    allowed: counts.reduce((total, { allowed }) => total + allowed, 0),
    refused: counts.reduce((total, { refused }) => total + refused, 0),
  }
}
