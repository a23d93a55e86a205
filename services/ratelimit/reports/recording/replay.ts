import { createHash } from 'node:crypto'
import { silentLog } from '@tollway/chassis/log/log.ts'
import { createMemoryCounters } from '../../counters/memory.ts'
import { createConfiguration } from '../../feeds/configuration.ts'
import { createCounting } from '../../limiter/counting.ts'
import type { DecisionRequest } from '../../limiter/decision.ts'
import type { DecisionObserver } from '../../limiter/decision-observer.ts'
import { type LimiterOptions, RuleLimiter } from '../../limiter/limiter.ts'
import { openDomain, type RuleSet } from '../../rules/compile.ts'
import { countsInOneStep } from '../../rules/extensions/required-features.ts'
import { formatProblem } from '../../rules/findings/format-problem.ts'
import type { Entry } from '../../rules/match.ts'
import { rateLimitTypeUrl } from '../../rules/rate-limit-domain.ts'
import { createLimitStats, type LimitStats, type LimitStatsTable } from '../../stats/registry/limit-stats.ts'
import { createStats, type Stats } from '../../stats/registry/stats.ts'
import { limitsIn } from '../rule-totals.ts'
import type { RecordedCalls } from './call-recording.ts'
import type { RecordedCall } from './generation.ts'
import { KeyComparison, type ReplayedKey } from './key-comparison.ts'
import { createReplaySlices } from './replay-slices.ts'

export interface ReplayRequest {
  readonly domain: string
  /** An encoded ratelimit.config.ratelimit.v3.RateLimitConfig. */
  readonly resource: Uint8Array
  /** The number of processes that share the counters: each recorded hit represents this many. */
  readonly processes: number
}

/** The settings of decisions that a replay has in common with the process. */
export type ReplaySettings = Pick<LimiterOptions, 'nearLimitRatio' | 'shadowMode' | 'quotaMode'> & {
  readonly mergeDomainConfigs: boolean
}

export interface ReplayParts {
  readonly settings: ReplaySettings
  readonly rules: () => RuleSet<LimitStats> | undefined
  readonly calls: () => RecordedCalls
  /** Returns the number of calls that the process has decided. */
  readonly decisions: () => number
  /** Called with values from 0 to 1. */
  readonly onProgress: (progress: number) => void
  readonly signal: AbortSignal
}

export interface ReplayResult {
  readonly now: readonly ReplayedRule[]
  readonly proposed: readonly ReplayedRule[]
  readonly keys: readonly ReplayedKey[]
  readonly coverage: ReplayCoverage
}

/** The part of the calls of the domain that was replayed. */
export interface ReplayCoverage extends Pick<RecordedCalls, 'fromSeconds' | 'calls' | 'share'> {
  /** The calls with at least one recorded descriptor. */
  readonly recorded: number
}

export interface ReplayedRule {
  readonly rule: string
  readonly allowed: number
  readonly refused: number
}

/** Equal calls of one second are replayed in at most this many parts. */
const maxParts = 16
const maxCounters = 100_000

/**
 * Replays recorded calls of a domain with the active rules and with the proposed ones. The limiter is the one
 * that decides calls, with counters in memory and a clock that follows the recording. Both begin with empty
 * counters. Resolves with the problems of the proposed configuration if it is invalid. Rejects when aborted.
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
  const { signal, onProgress } = parts
  const calls = parts.calls()
  const slices = createReplaySlices(parts.decisions, signal)
  let read = 0
  let recorded = 0
  for (const { call, records } of calls.records()) {
    read += records
    if (call !== undefined) {
      active.play(call)
      proposed.play(call)
      recorded += call.count
    }
    const resting = slices.rest()
    if (resting === undefined) continue
    await resting
    onProgress(read / Math.max(1, calls.length))
  }
  return {
    now: active.rules(),
    proposed: proposed.rules(),
    keys: await keys.changed(request.processes, slices),
    coverage: { fromSeconds: calls.fromSeconds, calls: calls.calls, share: calls.share, recorded },
  }
}

type OpenRules = (
  request: ReplayRequest,
  parts: ReplayParts,
  to: { readonly stats: Stats; readonly limitStats: LimitStatsTable },
) => Promise<RuleSet<LimitStats> | { readonly problem: string }>

/** The active rules with statistics of their own. */
const activeRules: OpenRules = async ({ domain }, { rules }, { limitStats }) => {
  const table = rules()?.domains.get(domain)?.table
  return { domains: new Map(table === undefined ? [] : [[domain, openDomain(table, limitStats.attach)]]) }
}

/** Reads the proposed configuration as the feed does; a large one is read in a thread. */
const proposeRules: OpenRules = async ({ domain, resource }, { settings }, { stats, limitStats }) => {
  const { mergeDomainConfigs } = settings
  const configuration = createConfiguration({
    ...{ stats, limitStats, mergeDomainConfigs, log: silentLog, spelling: 'camel' },
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

/** A limiter for a replay, and the hits of its rules and keys. */
async function openPlayer(request: ReplayRequest, parts: ReplayParts, { open, side, keys }: PlayerOptions) {
  const { processes } = request
  const stats = createStats()
  const limitStats = createLimitStats(stats, () => {})
  const rules = await open(request, parts, { stats, limitStats })
  if ('problem' in rules) return rules
  let nowMs = 0
  const clock = { nowMs: () => nowMs, monotonicMs: () => nowMs }
  const byRule = new Map<string, { allowed: number; refused: number }>()
  const limiter = new RuleLimiter({
    ...parts.settings,
    rules: () => rules,
    counting: createCounting({
      counters: createMemoryCounters({ clock, maxKeys: maxCounters }),
      ...{ stopWhenOver: false, mode: 'error', local: { add: () => [] }, localShare: 1 },
      onSuccess() {},
      onFailure() {},
    }),
    ...{
      stats,
      limitStats,
      clock,
      cacheKeyPrefix: '',
      expirationJitterMaxSeconds: 0,
      dynamicMetadata: false,
    },
    random: () => 0,
    observation: { observer: countHits(byRule, (entries, hits) => keys.add(side, entries, hits)) },
  })
  const parted = rulesRejectWholeCalls(rules)
  return {
    play({ request: call, seconds, count }: RecordedCall): void {
      nowMs = seconds * 1000
      if (parted) for (const calls of partsOf(count)) limiter.decide(multiplied(call, calls * processes))
      else limiter.decide(multiplied(call, count * processes))
    },
    rules: (): readonly ReplayedRule[] =>
      Array.from(byRule, ([rule, { allowed, refused }]) => ({
        rule,
        allowed: Math.round(allowed / processes),
        refused: Math.round(refused / processes),
      })).sort((a, b) => (a.rule < b.rule ? -1 : 1)),
  }
}

/** The statistics of a limit are exact where a call is partly over; an observer sees what each call adds. */
function countHits(
  byRule: Map<string, { allowed: number; refused: number }>,
  addKey: (entries: readonly Entry[], hits: { hits: number; refused: number }) => void,
): DecisionObserver {
  const before = new Map<LimitStats, { hits: number; refused: number }>()
  return {
    decided({ descriptors }, matches) {
      for (const [index, found] of matches.entries()) {
        if (found === undefined || found.limit.unlimited) continue
        let mostRefused = 0
        let mostHits = 0
        for (const { stats, configuredKey } of limitsIn(found.limit)) {
          const last = before.get(stats) ?? { hits: 0, refused: 0 }
          const refusedNow = stats.overLimit - stats.shadowMode
          const hits = stats.totalHits - last.hits
          const refused = refusedNow - last.refused
          before.set(stats, { hits: stats.totalHits, refused: refusedNow })
          const rule = byRule.get(configuredKey) ?? { allowed: 0, refused: 0 }
          rule.allowed += hits - refused
          rule.refused += refused
          byRule.set(configuredKey, rule)
          mostRefused = Math.max(mostRefused, refused)
          mostHits = Math.max(mostHits, hits)
        }
        addKey(descriptors[index]?.entries ?? [], { hits: mostHits, refused: mostRefused })
      }
    },
  }
}

/** Whether some rules reject a call as a whole: equal calls then differ from one call with all their hits. */
function rulesRejectWholeCalls({ domains }: RuleSet<LimitStats>): boolean {
  const features = domains.values().flatMap(({ table }) => table.extensions.flatMap(each => each.features))
  return features.some(countsInOneStep)
}

function partsOf(count: number): readonly number[] {
  const parts = Math.min(count, maxParts)
  const size = Math.floor(count / parts)
  return Array.from({ length: parts }, (_, index) => size + Number(index < count % parts))
}

function multiplied(call: DecisionRequest, by: number): DecisionRequest {
  if (by === 1) return call
  const hitsOf = (hits: number | undefined) => (hits ?? Math.max(1, call.hitsAddend)) * by
  return {
    ...call,
    descriptors: call.descriptors.map(({ entries, hitsAddend }) => ({
      entries,
      hitsAddend: hitsOf(hitsAddend),
    })),
  }
}
