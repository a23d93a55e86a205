import type { Clock } from '@tollway/chassis/clock.ts'
import {
  countHits,
  type DecisionObserver,
  type DecisionRequest,
  type DescriptorDecision,
} from '../limiter/decision.ts'
import type { RuleSet } from '../rules/compile.ts'
import type { DescriptorEntry, Match } from '../rules/match.ts'
import type { LimitStats } from '../stats/limit-stats.ts'
import { hashEntries, startHash } from './content-hash.ts'
import type { ShowEntries } from './hide-values.ts'
import { createHitTotals, type HitTotals, sumHits } from './rule-totals.ts'
import { Sample } from './sample.ts'
import { type CountedItem, SpaceSaving } from './space-saving.ts'

/** A subscription of the operator: it gets a report each second. */
export interface SubscriptionRequest {
  readonly id: bigint
  readonly what: 'series' | 'top' | 'tap'
  readonly domain: string
  /** The rule by its `configuredKey`; empty for the whole domain. */
  readonly rule: string
  /** Whether `top` counts only the rejected hits of each key; otherwise it counts all hits. */
  readonly byRefused: boolean
  /** At most this many decisions of a tap in a second are of use to its reader. */
  readonly maxTapped: number
}

export type WatchReport =
  | ({ readonly what: 'series'; readonly id: bigint } & HitTotals)
  | {
      readonly what: 'top'
      readonly id: bigint
      readonly keys: readonly CountedItem<readonly DescriptorEntry[]>[]
      readonly sinceMs: number
      readonly missingAtMost: number
    }
  | {
      readonly what: 'tap'
      readonly id: bigint
      readonly decisions: readonly TappedDecision[]
      readonly skipped: number
    }

interface TappedDecision {
  readonly atMs: number
  readonly entries: readonly DescriptorEntry[]
  readonly rule: string
  readonly over: boolean
  readonly reason: string
  readonly hits: number
  readonly limit: number
  readonly remaining: number
}

export interface Watch {
  /** Observes decisions; undefined if the statistics suffice. */
  readonly observer: DecisionObserver | undefined
  /**
   * Returns the report of the time since the last one.
   * @param tapShare a tap reports at most this many decisions
   */
  report(tapShare: number): WatchReport
}

/** A report of the most frequent keys has at most this many. */
const maxTopKeys = 100

export interface WatchParts {
  readonly rules: () => RuleSet<LimitStats> | undefined
  readonly clock: Clock
  readonly show: ShowEntries
  /** All taps of all workers of the pod together report at most this many decisions in a second. */
  readonly maxTapped: number
  readonly worker: WorkerShare
  readonly random: () => number
}

export function openWatch(request: SubscriptionRequest, parts: WatchParts): Watch {
  if (request.what === 'series') return openSeries(request, parts)
  return request.what === 'top' ? openTop(request, parts) : openTap(request, parts)
}

/** Reports the difference between the totals of the statistics, so it observes no decisions. */
function openSeries({ id, domain, rule }: SubscriptionRequest, { rules }: WatchParts): Watch {
  let before = sumHits(rules(), domain, rule)
  return {
    observer: undefined,
    report() {
      const after = sumHits(rules(), domain, rule)
      const added = createHitTotals()
      // After a rule was configured again, its totals can be lower than before.
      for (const name of ['calls', 'allowed', 'refused', 'near', 'shadow'] as const)
        added[name] = Math.max(0, after[name] - before[name])
      before = after
      return { what: 'series', id, ...added }
    },
  }
}

function openTop({ id, domain, rule, byRefused }: SubscriptionRequest, { clock, show }: WatchParts): Watch {
  const sketch = new SpaceSaving<readonly DescriptorEntry[]>(maxTopKeys)
  const startMs = clock.monotonicMs()
  return {
    observer: {
      decided(request, matches, statuses) {
        if (request.domain !== domain) return
        for (let index = 0; index < statuses.length; index++) {
          if (rule !== '' && !isOfRule(matches[index], rule)) continue
          if (byRefused && statuses[index]?.over !== true) continue
          const hits = countHits(request, index)
          const entries = request.descriptors[index]?.entries ?? []
          if (hits <= 0) continue
          startHash()
          hashEntries(entries)
          sketch.add(hits, entries)
        }
      },
    },
    report: () => ({
      what: 'top',
      id,
      keys: sketch.top().map(({ item, ...count }) => ({ item: show(item), ...count })),
      sinceMs: clock.monotonicMs() - startMs,
      missingAtMost: sketch.missingAtMost(),
    }),
  }
}

/** Reports a sample of the decisions of the whole interval, not its first decisions. */
function openTap({ id, domain, rule }: SubscriptionRequest, parts: WatchParts): Watch {
  const { clock, show, maxTapped, worker, random } = parts
  const sample = new Sample<TappedDecision>(Math.ceil(maxTapped / worker.of), random)
  return {
    observer: {
      decided(request, matches, statuses) {
        if (request.domain !== domain) return
        for (let index = 0; index < statuses.length; index++) {
          const found = matches[index]
          if (rule !== '' && !isOfRule(found, rule)) continue
          const status = statuses[index]
          if (status === undefined) continue
          const slot = sample.offer()
          if (slot !== undefined)
            sample.put(slot, toTappedDecision(request, index, found, status, clock.nowMs()))
        }
      },
    },
    report(tapShare) {
      const { items, skipped } = sample.take(tapShare)
      const decisions = items.map(decision => ({ ...decision, entries: show(decision.entries) }))
      return { what: 'tap', id, decisions, skipped }
    },
  }
}

function toTappedDecision(
  request: DecisionRequest,
  index: number,
  found: Match<LimitStats> | undefined,
  status: DescriptorDecision,
  atMs: number,
): TappedDecision {
  const hits = countHits(request, index)
  return {
    atMs,
    entries: request.descriptors[index]?.entries ?? [],
    rule: found?.limit.configuredKey ?? '',
    over: status.over,
    reason: describeReason(found, status, hits),
    hits,
    limit: findCapacity(found, status),
    remaining: status.remaining,
  }
}

/** Returns whether the matched rule, or one of its limits, has this `configuredKey`. */
function isOfRule(found: Match<LimitStats> | undefined, rule: string): boolean {
  if (found === undefined) return false
  const { configuredKey, members } = found.limit
  return configuredKey === rule || members?.some(member => member.configuredKey === rule) === true
}

function describeReason(
  found: Match<LimitStats> | undefined,
  { over, remaining, limit }: DescriptorDecision,
  hits: number,
): string {
  if (found === undefined) return 'no limit'
  if (limit === undefined) return 'unlimited'
  const name = `${limit.requestsPerUnit} ${limit.unit === undefined ? 'at the same time' : `per ${limit.unit}`}`
  if (hits < 0) return `${-hits} hits given back to the limit of ${name}`
  if (over) return `over the limit of ${name}`
  const isShadowed = found.limit.shadowMode && remaining === 0
  return isShadowed ? `shadow mode of the limit of ${name}` : `within the limit of ${name}`
}

/** Returns how many hits the limit admits at once. For a token bucket that is its burst, not its limit. */
function findCapacity(found: Match<LimitStats> | undefined, { limit }: DescriptorDecision): number {
  if (limit === undefined) return 0
  const member = found?.limit.members?.find(({ name, requestsPerUnit }) => {
    return name === limit.name && requestsPerUnit === limit.requestsPerUnit
  })
  return (member ?? found?.limit)?.admission?.capacity ?? limit.requestsPerUnit
}

/** The index of a worker of the pod, from 0, and the number of workers. */
interface WorkerShare {
  readonly index: number
  readonly of: number
}

/**
 * Returns a worker's share of a total: a whole number, so that the shares of all workers sum to the total.
 * The shares rotate each second, so that every worker gets one at times even if there are more workers than
 * the total.
 */
export function divideAmongWorkers(total: number, { index, of }: WorkerShare, second: number): number {
  const turn = (index + second) % of
  return Math.floor((total * (turn + 1)) / of) - Math.floor((total * turn) / of)
}
