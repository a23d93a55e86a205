import type { JsonObject } from '@tollway/chassis/json.ts'
import { type Calendar, type CalendarUnit, openCalendar } from './calendar.ts'
import { type Algorithm, effectiveFields, isConcurrency, type LimitFields, limitFields } from './fields.ts'
import type { RateLimitPolicy } from './model.ts'
import { sanitizeStatName } from './names.ts'
import { ticksPerSecond } from './ticks.ts'
import { parseUnit, type Unit, unitSeconds } from './units.ts'
import type { WindowBounds } from './window.ts'

export interface Limit<S> extends LimitSettings, WindowBounds {
  readonly stats: S
  /**
   * The `fullKey` as configured, even if the rule has `detailed_metric` or `value_to_metric`, which put the
   * values of a request into `fullKey`. Empty for a limit that a request brings with it.
   */
  readonly configuredKey: string
  /**
   * How the limit admits calls, if its algorithm is not `FixedWindow`, its delivery is `Quota`, or it is a member
   * of `limits`; otherwise undefined.
   */
  readonly admission: LimitAdmission | undefined
  /**
   * The members of `limits`, which admit calls together in place of this limit; undefined for a rule without
   * `limits`.
   */
  readonly members: readonly Limit<S>[] | undefined
}

/** The parameters with which the counters decide whether a limit admits a call. */
interface LimitAdmission {
  readonly algorithm: Algorithm
  /**
   * The number of hits that the limit admits at once: the burst of a `TokenBucket`, otherwise
   * `requestsPerUnit`.
   */
  readonly capacity: number
  readonly ticksPerSecond: number
  /**
   * The end of a cache key: the algorithm and the length of the window. The start of a fixed window is not
   * included.
   */
  readonly keySuffix: string
}

export interface LimitSettings extends LimitFields {
  /**
   * The name by which other limits can replace this one, and which answers report. Empty for a limit without
   * a name.
   */
  readonly name: string
  /** `domain.key_value.key2_value2`: the name of the limit in listings. */
  readonly fullKey: string
  /** The `fullKey` after `sanitizeStatName`, as the name of the statistics. */
  readonly statName: string
  /** 0 to 2^32-1. `maxConcurrent` with the algorithm `Concurrency`. */
  readonly requestsPerUnit: number
  /** The unit of the window; `second` for an unlimited limit and for `Concurrency`, which have no unit. */
  readonly unit: Unit
  /**
   * The length of a window, or the lease of `Concurrency`. Not used if `calendar` is set, because the windows of a calendar differ in
   * length.
   */
  readonly unitSeconds: number
  /** What the rule matches other than its value, and what it counts together: `prefix /api/`. */
  readonly matching?: string
  /** The members of a rule with several limits. The numbers of the rule itself are not used then. */
  readonly limits?: readonly LimitSettings[]
  /** Whether requests pass without being counted. */
  readonly unlimited: boolean
  readonly shadowMode: boolean
  readonly quotaMode: boolean
  readonly replaces: readonly string[]
  readonly metadata: JsonObject | undefined
}

/** Returns what a limit admits in which time. For `Concurrency`, these are `maxConcurrent` and the lease. */
export function toWindow(requestsPerUnit: number, unit: Unit, fields: LimitFields) {
  const { maxConcurrent, leaseSeconds, unitMultiplier = 1 } = fields
  return {
    requestsPerUnit: maxConcurrent ?? requestsPerUnit,
    unit,
    unitSeconds: leaseSeconds ?? unitSeconds[unit] * unitMultiplier,
  }
}

/** Creates a limit. `attach` creates the statistics for a `statName`. */
export function createLimit<S>(settings: LimitSettings, attach: (statName: string) => S): Limit<S> {
  const { limits, algorithm, delivery } = settings
  const members = limits?.map((member, index) => ({
    ...createLimit(member, attach),
    admission: toAdmission(member, countEqualBefore(limits, index)),
  }))
  const isAdmitted = algorithm !== undefined || delivery === 'Quota'
  return {
    ...settings,
    configuredKey: settings.fullKey,
    // A rule with several limits has no statistics of its own: those of the first member take their place.
    stats: members?.[0]?.stats ?? attach(settings.statName),
    boundaries: openBoundaries(settings),
    admission: limits === undefined && isAdmitted ? toAdmission(settings) : undefined,
    members,
  }
}

/**
 * A `TokenBucket` that counts rejected hits can owe this many bursts: its tick is long enough for exact
 * calculations with that debt, or one second if even that is too short.
 */
const burstsOfDebt = 1_000

/**
 * @param equalBefore how many earlier members of the same rule have this algorithm and window; a member after
 * the first one gets this number in its key
 */
export function toAdmission(settings: LimitSettings, equalBefore = 0): LimitAdmission {
  const { algorithm = 'FixedWindow', burst, requestsPerUnit, unitSeconds: windowSeconds } = settings
  const bursts = algorithm === 'TokenBucket' && settings.countRejected ? burstsOfDebt : 1
  const capacity = algorithm === 'TokenBucket' ? (burst ?? requestsPerUnit) : requestsPerUnit
  return {
    algorithm,
    capacity,
    ticksPerSecond: isConcurrency(settings)
      ? ticksPerSecondOfHolds
      : (ticksPerSecond(bursts * Math.max(capacity, requestsPerUnit), windowSeconds) ?? 1),
    keySuffix: `${toKeyName(settings)}${equalBefore === 0 ? '' : `#${equalBefore}`}`,
  }
}

/** Always the same, because the ends of stored holds are in ticks. */
const ticksPerSecondOfHolds = 1_000_000

/**
 * Returns the name of a limit's state in its key. Holds have their own ends, so they are kept when the lease
 * changes.
 */
function toKeyName(settings: LimitSettings): string {
  const { algorithm = 'FixedWindow', unitSeconds: windowSeconds } = settings
  return isConcurrency(settings) ? algorithm : `${algorithm}:${windowSeconds}`
}

function countEqualBefore(limits: readonly LimitSettings[], index: number): number {
  const names = limits.slice(0, index + 1).map(toKeyName)
  return names.filter(name => name === names[index]).length - 1
}

/** Returns the calendar that bounds the windows of a limit; undefined for a limit without `calendar`. */
export function openBoundaries({ unit, unitMultiplier, calendar }: LimitSettings): Calendar | undefined {
  if (calendar === undefined) return undefined
  return openCalendar({ ...calendar, unit: unit as CalendarUnit, unitMultiplier })
}

/**
 * Returns the settings of a member of `limits`. The member is in shadow mode or quota mode if the policy or
 * the rule has the flag.
 */
export function toMemberSettings(rule: LimitSettings, policy: RateLimitPolicy, index: number): LimitSettings {
  const { name, shadowMode = false, quotaMode = false, replaces, requestsPerUnit = 0 } = policy
  const unit = parseUnit(policy.unit) ?? 'second'
  const fields = effectiveFields(limitFields, policy)
  const fullKey = `${rule.fullKey}.${name || index}`
  return {
    ...fields,
    ...(rule.matching !== undefined && { matching: rule.matching }),
    name,
    fullKey,
    statName: sanitizeStatName(fullKey),
    ...toWindow(requestsPerUnit, unit, fields),
    unlimited: false,
    shadowMode: shadowMode || rule.shadowMode,
    quotaMode: quotaMode || rule.quotaMode,
    replaces,
    metadata: undefined,
  }
}
