import type { Clock } from '@tollway/chassis/clock.ts'
import { type Algorithm, emptyingHits } from '../counters/admission/limit-check.ts'
import { type Counters, CountersError, type Hit, maxCount } from '../counters/counters.ts'
import type { OpenReservations } from '../counters/reservations.ts'
import { nameLedger, toReservationId } from '../limiter/ledgers.ts'
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
  readonly algorithm: Algorithm
  /** The key with its window. */
  readonly key: string
  /** Negative if a raise granted more hits than were counted. */
  readonly value: number
  readonly limit: number
  readonly resetSeconds: number
}

/** What is reserved in all limits of a descriptor together. */
export interface ReservedAmounts
  extends Pick<OpenReservations, 'count' | 'summed' | 'amount' | 'nextExpiryMs'> {
  /** Those that expire first, at most `maxListed`. */
  readonly first: readonly { readonly id: string; readonly amount: number; readonly expiresAtMs: number }[]
}

interface ReservationReading {
  /** Undefined if the backend has no reservations, or if they could not be read. */
  readonly reservations?: ReservedAmounts
  /** Why they could not be read; empty if they could. */
  readonly reservationsProblem: string
}

export type CounterResult =
  | ({
      readonly outcome: 'ok'
      readonly counters: readonly CounterState[]
      /** Whether proxies share the limit. */
      readonly isShared: boolean
    } & ReservationReading)
  | { readonly outcome: 'unknown-domain' | 'no-rule' | 'unlimited' }
  | { readonly outcome: 'backend-failed' | 'not-supported'; readonly problem: string }

export interface CounterParts {
  readonly rules: () => RuleSet<LimitStats> | undefined
  readonly counters: Pick<Counters, 'add' | 'admit' | 'reservations'>
  readonly cacheKeyPrefix: string
  readonly clock: Clock
  /** Whether a counter can become negative: not in memcached, whose counters do not fall below 0. */
  readonly canBeNegative: boolean
  /** Called with the keys of counters that were changed. */
  readonly onChange: (keys: readonly string[]) => void
}

/** An answer lists at most this many reservations. */
const maxListed = 100

/**
 * Reads, resets or raises the counters of one descriptor in the backend. A reset of a fixed window subtracts
 * the value that was read, so hits that are counted meanwhile stay counted; a reset empties a sliding window
 * and fills a token bucket. A raise of a window ends with that window. A raise of a token bucket adds tokens;
 * those beyond a full bucket are lost. Reservations keep their amounts: what they give back at their end is
 * taken from what was counted since, but not below 0. A failure of the backend is an outcome, not a rejection.
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
  // Read first, because it ends what has expired.
  const reading = await readReservations(parts, counters)
  try {
    const called = isCounted
      ? await callWindows(parts, counters, action)
      : await callAdmitted(parts, counters, action)
    if ('outcome' in called) return called
    if (action.do !== 'read') parts.onChange(called.map(({ key }) => key))
    return { outcome: 'ok', counters: called, isShared: found.limit.delivery === 'Quota', ...reading }
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

/** A login of Redis may lack the commands of reservations, which the counters do not need. */
async function readReservations(
  { counters: { reservations }, cacheKeyPrefix, onChange }: CounterParts,
  located: readonly LocatedCounter[],
): Promise<ReservationReading> {
  if (reservations === undefined) return { reservationsProblem: '' }
  const ledger = nameLedger(
    cacheKeyPrefix,
    located.map(({ check }) => check),
  )
  try {
    const { first, decreased, ...sums } = await reservations.read(ledger.key, maxListed)
    if (decreased.length > 0) onChange(decreased)
    const listed = first.map(({ entry, ...same }) => ({ id: toReservationId(ledger, entry), ...same }))
    return { reservations: { ...sums, first: listed }, reservationsProblem: '' }
  } catch (error) {
    if (!(error instanceof CountersError)) throw error
    return { reservationsProblem: error.message }
  }
}

async function callWindows(
  { counters, canBeNegative }: CounterParts,
  located: readonly LocatedCounter[],
  action: CounterAction,
): Promise<readonly CounterState[] | (CounterResult & { readonly outcome: 'not-supported' })> {
  const before = await counters.add(located.map(counter => toHit(counter, 0)))
  const least = Math.min(...before)
  if (action.do === 'raise' && action.by > least && !canBeNegative) {
    return { outcome: 'not-supported', problem: `memcached can grant at most the ${least} counted hits` }
  }
  const hits = (index: number) => (action.do === 'raise' ? -action.by : -(before[index] ?? 0))
  const changes = located.map((counter, index) => toHit(counter, hits(index)))
  const after = action.do === 'read' ? before : await counters.add(changes)
  return located.map((counter, index) => toState(counter, after[index] ?? 0))
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
  const { key, algorithm, burst } = check
  return { rule: limit.configuredKey, algorithm, key, value, limit: burst, resetSeconds }
}
