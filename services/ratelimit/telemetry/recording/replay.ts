import { createHash } from 'node:crypto'
import { setImmediate, setTimeout } from 'node:timers/promises'
import { silentLog } from '@tollway/chassis/log/log.ts'
import type { Slices } from '@tollway/chassis/slices.ts'
import { createConfiguration } from '../../config/configuration.ts'
import { createMemoryCounters } from '../../counters/memory.ts'
import { createCounting } from '../../limiter/counting.ts'
import type { DecisionObserver, DecisionRequest } from '../../limiter/decision.ts'
import { type LimiterOptions, RuleLimiter } from '../../limiter/limiter.ts'
import { openDomain, type RuleSet } from '../../rules/compile.ts'
import type { DescriptorEntry } from '../../rules/match.ts'
import { countsInOneStep, rateLimitTypeUrl } from '../../rules/model.ts'
import { formatProblem } from '../../rules/problems.ts'
import { createLimitStats, type LimitStats, type LimitStatsTable } from '../../stats/limit-stats.ts'
import { createStats, type Stats } from '../../stats/stats.ts'
import { listMembers } from '../rule-totals.ts'
import type { RecordedCall } from './generation.ts'
import { type ComparedKeyHits, KeyComparison } from './key-comparison.ts'
import type { ReplayedCalls } from './merged-calls.ts'
import { RuleHits, type RuleHitsEstimate } from './rule-hits.ts'

interface ReplayRequest {
  readonly domain: string
  /** An encoded ratelimit.config.ratelimit.v3.RateLimitConfig. */
  readonly resource: Uint8Array
  /** Unix time in milliseconds. Earlier calls only fill the counters; their hits are in no result. */
  readonly fromMs: number
}

/** The settings that decide calls, which a replay takes over from the process. */
export type ReplaySettings = Pick<LimiterOptions, 'nearLimitRatio' | 'shadowMode' | 'quotaMode'> & {
  readonly mergeDomainConfigs: boolean
  readonly stopIncrementWhenOverLimit: boolean
}

export interface ReplayParts {
  readonly settings: ReplaySettings
  readonly rules: () => RuleSet<LimitStats> | undefined
  readonly calls: ReplayedCalls
  /** Returns the number of calls that the process has decided; a replay pauses while it grows. */
  readonly decisions: () => number
  readonly onProgress: (progress: number) => void
  readonly signal: AbortSignal
}

export interface ReplayResult {
  readonly now: readonly RuleHitsEstimate[]
  readonly proposed: readonly RuleHitsEstimate[]
  readonly keys: readonly ComparedKeyHits[]
  readonly coverage: ReplayCoverage
}

interface ReplayCoverage {
  /** The number of calls with a recorded descriptor since `fromMs`; in `earlier`, before `fromMs`. */
  readonly recorded: number
  readonly earlier: number
  /** Unix time of the first replayed call since `fromMs`, in milliseconds; undefined if there is none. */
  readonly firstMs: number | undefined
  /** The share of the keys that was replayed: 1 for all, 1/2, 1/4 and so on. */
  readonly share: number
}

/** Equal calls of one time are decided in at most this many calls, if rules reject calls as a whole. */
const maxParts = 16
const maxCounters = 250_000

/**
 * Replays recorded calls of a domain with the active rules and with the proposed ones. The limiter is the one
 * that decides calls, with counters in memory and a clock that follows the recording. Both replays begin with
 * empty counters; `RuleHits` documents the resulting error. Resolves with the problems of the proposed
 * configuration if it is invalid. Rejects when aborted.
 */
export async function replay(
  request: ReplayRequest,
  parts: ReplayParts,
): Promise<ReplayResult | { readonly problem: string }> {
  const keys = new KeyComparison()
  const proposed = await openPlayer(request, parts, { open: proposeRules, side: 'proposed', keys })
  if ('problem' in proposed) return proposed
  const active = await openPlayer(request, parts, { open: activeRules, side: 'now', keys })
  if ('problem' in active) return active
  const { signal, onProgress, calls } = parts
  const slices = createReplaySlices(parts.decisions, signal)
  let [read, recorded, earlier] = [0, 0, 0]
  let firstMs: number | undefined
  for (const { call, records } of calls.records()) {
    read += records
    if (call !== undefined) {
      active.play(call)
      proposed.play(call)
      if (call.ms < request.fromMs) earlier += call.count
      else {
        recorded += call.count
        firstMs ??= call.ms
      }
    }
    const resting = slices.yieldIfDue()
    if (resting === undefined) continue
    await resting
    onProgress(read / Math.max(1, calls.length))
  }
  const share = 2 ** -calls.halvings
  return {
    now: active.rules.all(share),
    proposed: proposed.rules.all(share),
    keys: await keys.changed(slices),
    coverage: { recorded, earlier, share, firstMs },
  }
}

type OpenRules = (
  request: ReplayRequest,
  parts: ReplayParts,
  to: { readonly stats: Stats; readonly limitStats: LimitStatsTable },
) => Promise<RuleSet<LimitStats> | { readonly problem: string }>

/** Returns the active rules, with statistics that only the replay counts in. */
const activeRules: OpenRules = async ({ domain }, { rules }, { limitStats }) => {
  const table = rules()?.domains.get(domain)?.table
  return { domains: new Map(table === undefined ? [] : [[domain, openDomain(table, limitStats)]]) }
}

/** Reads the proposed configuration as one from the feed; a large one is read in a thread. */
const proposeRules: OpenRules = async ({ domain, resource }, { settings }, { stats, limitStats }) => {
  const { mergeDomainConfigs } = settings
  const configuration = createConfiguration({
    stats,
    limitStats,
    mergeDomainConfigs,
    log: silentLog,
    spelling: 'camel',
  })
  const typeUrl = rateLimitTypeUrl
  const hashes = [createHash('sha256').update(resource).digest('hex')]
  const resources = [{ typeUrl, value: resource }]
  const problems = await configuration.load({ from: 'response', typeUrl, resources, hashes })
  const rules = configuration.rules()
  if (problems.length > 0 || rules === undefined) {
    return { problem: problems.slice(0, maxReportedProblems).map(formatProblem).join('\n') }
  }
  return rules.domains.has(domain) ? rules : { problem: `the configuration is not of the domain '${domain}'` }
}

const maxReportedProblems = 20

interface PlayerOptions {
  readonly open: OpenRules
  readonly side: 'now' | 'proposed'
  readonly keys: KeyComparison
}

async function openPlayer(request: ReplayRequest, parts: ReplayParts, { open, side, keys }: PlayerOptions) {
  const { settings } = parts
  const { stopIncrementWhenOverLimit: stopWhenOver } = settings
  const stats = createStats()
  const limitStats = createLimitStats(stats, () => {})
  const set = await open(request, parts, { stats, limitStats })
  if ('problem' in set) return set
  let [nowMs, countedMs] = [0, 0]
  const clock = { nowMs: () => nowMs, monotonicMs: () => nowMs }
  const countersClock = { nowMs: () => countedMs, monotonicMs: () => countedMs }
  const rules = new RuleHits(request.fromMs)
  const limiter = new RuleLimiter({
    ...settings,
    rules: () => set,
    counting: createCounting({
      counters: createMemoryCounters({ clock: countersClock, maxKeys: maxCounters, stopWhenOver }),
      stopWhenOver,
      mode: 'error',
      local: { add: () => [] },
      localShare: 1,
      onSuccess() {},
      onFailure() {},
    }),
    stats,
    limitStats,
    clock,
    cacheKeyPrefix: '',
    expirationJitterMaxSeconds: 0,
    dynamicMetadata: false,
    random: () => 0,
    observation: {
      observer: countHits(rules, (entries, hits) => {
        if (nowMs >= request.fromMs) keys.add(side, entries, hits)
      }),
    },
  })
  const parted = stopWhenOver || rulesRejectWholeCalls(set)
  return {
    rules,
    play({ request: call, ms, aheadMicros, count }: RecordedCall): void {
      nowMs = ms
      // Adds half a microsecond, because a sum that is slightly too small would otherwise lose a microsecond
      // when it is rounded down.
      countedMs = aheadMicros === 0 ? ms : ms + (aheadMicros + 0.5) / 1000
      if (parted) for (const calls of divideCalls(count)) limiter.decide(multiplyCall(call, calls))
      else limiter.decide(multiplyCall(call, count))
    },
  }
}

/**
 * Returns an observer that adds, for each call, what the call has added to the statistics of its limits. The
 * statistics are exact even if only a part of a call is over the limit.
 */
function countHits(
  rules: RuleHits,
  addKey: (entries: readonly DescriptorEntry[], hits: { hits: number; refused: number }) => void,
): DecisionObserver {
  const before = new Map<LimitStats, { hits: number; refused: number }>()
  return {
    decided({ domain, descriptors }, matches, _, nowMs) {
      for (const [index, found] of matches.entries()) {
        if (found === undefined || found.limit.unlimited) continue
        const { baseKey } = found
        const entries = descriptors[index]?.entries ?? []
        let mostRejected = 0
        let mostHits = 0
        for (const limit of listMembers(found.limit)) {
          const { stats } = limit
          const last = before.get(stats) ?? { hits: 0, refused: 0 }
          const refusedNow = stats.overLimit - stats.shadowMode
          const hits = stats.totalHits - last.hits
          const refused = refusedNow - last.refused
          before.set(stats, { hits: stats.totalHits, refused: refusedNow })
          rules.add({ limit, baseKey, domain, entries, nowMs, hits, refused })
          mostRejected = Math.max(mostRejected, refused)
          mostHits = Math.max(mostHits, hits)
        }
        addKey(entries, { hits: mostHits, refused: mostRejected })
      }
    },
  }
}

/**
 * Returns whether rules reject calls as a whole: equal calls then have other outcomes than one call with all
 * their hits.
 */
function rulesRejectWholeCalls({ domains }: RuleSet<LimitStats>): boolean {
  const features = domains.values().flatMap(({ table }) => table.extensions.flatMap(each => each.features))
  return features.some(countsInOneStep)
}

function divideCalls(count: number): readonly number[] {
  const parts = Math.min(count, maxParts)
  const size = Math.floor(count / parts)
  return Array.from({ length: parts }, (_, index) => size + Number(index < count % parts))
}

function multiplyCall(call: DecisionRequest, by: number): DecisionRequest {
  if (by === 1) return call
  const multiplyHits = (hits: number | undefined) => (hits ?? Math.max(1, call.hitsAddend)) * by
  return {
    ...call,
    descriptors: call.descriptors.map(({ entries, hitsAddend, givesBack }) => ({
      entries,
      givesBack,
      hitsAddend: multiplyHits(hitsAddend),
    })),
  }
}

const sliceMs = 0.5
/**
 * The pause after a slice while the process decides calls. The timer counts from the start of the turn of the
 * event loop, so the pause includes the slice.
 */
const pauseMs = 2
/** When the process has decided no call for this time, a replay does not pause between slices. */
const quietMs = 100

/**
 * Divides a replay into slices that do not delay decisions noticeably.
 *
 * @param decisions returns the number of calls that the process has decided
 * @param signal makes a pause reject
 */
export function createReplaySlices(decisions: () => number, signal: AbortSignal): Slices {
  let endMs = performance.now() + sliceMs
  let decided = decisions()
  let busyUntilMs = performance.now() + quietMs

  async function rest(nowMs: number): Promise<void> {
    const count = decisions()
    if (count !== decided) busyUntilMs = nowMs + quietMs
    decided = count
    if (nowMs < busyUntilMs) await setTimeout(pauseMs, undefined, { signal })
    else await setImmediate(undefined, { signal })
    endMs = performance.now() + sliceMs
  }

  return {
    yieldIfDue() {
      const nowMs = performance.now()
      return nowMs < endMs ? undefined : rest(nowMs)
    },
  }
}
