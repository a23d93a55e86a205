import type { Clock } from '@tollway/chassis/clock.ts'
import { emptyingHits } from '../counters/admission/limit-check.ts'
import { type Counters, CountersError, type Hit, maxCount } from '../counters/counters.ts'
import { type LocatedCounter, locateCounters } from '../limiter/locate-counters.ts'
import type { RuleSet } from '../rules/compile.ts'
import type { DescriptorEntry } from '../rules/match.ts'
import type { LimitStats } from '../stats/limit-stats.ts'

export type CounterAction =
  | { readonly do: 'read' | 'reset' }
  /** Grants this many hits until the window ends. */
  | { readonly do: 'raise'; readonly by: number }

interface CounterState {
  readonly rule: string
  /** The key with its window. */
  readonly key: string
  /** Negative if a raise granted more hits than were counted. */
  readonly value: number
  readonly limit: number
  readonly resetSeconds: number
}

export type CounterResult =
  | { readonly outcome: 'ok'; readonly counters: readonly CounterState[] }
  | { readonly outcome: 'unknown-domain' | 'no-rule' | 'unlimited' }
  | { readonly outcome: 'backend-failed' | 'not-supported'; readonly problem: string }

export interface CounterParts {
  readonly rules: () => RuleSet<LimitStats> | undefined
  readonly counters: Pick<Counters, 'add' | 'admit'>
  readonly cacheKeyPrefix: string
  readonly clock: Clock
  /** Whether a counter can become negative: not in memcached, whose counters do not fall below 0. */
  readonly canBeNegative: boolean
}

/**
 * Reads, resets or raises the counters of one descriptor in the backend. A reset of a fixed window subtracts
 * the value that was read, so hits that are counted meanwhile stay counted; a reset empties a sliding window
 * and fills a token bucket. A raise of a window ends with that window. A raise of a token bucket adds tokens;
 * those beyond a full bucket are lost. A failure of the backend is an outcome, not a rejection.
 */
export async function callCounter(
  parts: CounterParts,
  domain: string,
  entries: readonly DescriptorEntry[],
  action: CounterAction,
): Promise<CounterResult> {
  const { rules, cacheKeyPrefix, clock } = parts
  const nowSeconds = Math.floor(clock.nowMs() / 1000)
  const found = locateCounters(rules(), domain, entries, { cacheKeyPrefix, nowSeconds })
  if (found === undefined) return { outcome: 'unknown-domain' }
  if (found.limit === undefined) return { outcome: 'no-rule' }
  if (found.limit.unlimited) return { outcome: 'unlimited' }
  const { counters } = found
  const isCounted = counters.every(({ check }) => check.algorithm === 'FixedWindow')
  try {
    if (isCounted) return await callWindows(parts, counters, action)
    return { outcome: 'ok', counters: await callAdmitted(parts, counters, action) }
  } catch (error) {
    if (!(error instanceof CountersError)) throw error
    return { outcome: 'backend-failed', problem: error.message }
  }
}

/** Returns the keys of the counters of a descriptor; empty if no rule with a limit matches. */
export function counterKeys(
  { rules, cacheKeyPrefix, clock }: Pick<CounterParts, 'rules' | 'cacheKeyPrefix' | 'clock'>,
  domain: string,
  entries: readonly DescriptorEntry[],
): readonly string[] {
  const nowSeconds = Math.floor(clock.nowMs() / 1000)
  const found = locateCounters(rules(), domain, entries, { cacheKeyPrefix, nowSeconds })
  return found?.counters.map(({ check }) => check.key) ?? []
}

async function callWindows(
  { counters, canBeNegative }: CounterParts,
  located: readonly LocatedCounter[],
  action: CounterAction,
): Promise<CounterResult> {
  const before = await counters.add(located.map(counter => toHit(counter, 0)))
  const least = Math.min(...before)
  if (action.do === 'raise' && action.by > least && !canBeNegative) {
    return { outcome: 'not-supported', problem: `memcached can grant at most the ${least} counted hits` }
  }
  const hits = (index: number) => (action.do === 'raise' ? -action.by : -(before[index] ?? 0))
  const changes = located.map((counter, index) => toHit(counter, hits(index)))
  const after = action.do === 'read' ? before : await counters.add(changes)
  return { outcome: 'ok', counters: located.map((counter, index) => toState(counter, after[index] ?? 0)) }
}

/** The limit is `maxCount`, so that a backend that stops counting over the limit counts all the hits. */
function toHit({ check, perSecond }: LocatedCounter, hits: number): Hit {
  const { key, expirySeconds } = check
  return { key, hits, grants: true, expirySeconds, limit: maxCount, perSecond }
}

/** The value of a sliding window or token bucket is the burst minus the remaining hits. */
async function callAdmitted(
  { counters }: CounterParts,
  located: readonly LocatedCounter[],
  action: CounterAction,
): Promise<readonly CounterState[]> {
  const hits = toHits(action)
  const outcomes = await Promise.all(
    // Admits each check by itself: the checks of one call would have to be in one slot of a Redis Cluster.
    located.map(async ({ check }) => (await counters.admit?.([{ ...check, hits, grants: true }]))?.[0]),
  )
  return located.map((counter, index) => {
    const outcome = outcomes[index]
    if (outcome === undefined) throw new CountersError('the counters cannot admit calls')
    const { remaining, waitSeconds = 0 } = outcome
    const { resetSeconds, ...state } = toState(counter, counter.check.burst - remaining)
    const isFixed = counter.check.algorithm === 'FixedWindow'
    return { ...state, resetSeconds: isFixed ? resetSeconds : Math.ceil(waitSeconds) }
  })
}

function toHits(action: CounterAction): number {
  if (action.do === 'raise') return -action.by
  return action.do === 'reset' ? emptyingHits : 0
}

function toState({ limit, check, resetSeconds }: LocatedCounter, value: number): CounterState {
  return { rule: limit.configuredKey, key: check.key, value, limit: check.burst, resetSeconds }
}
