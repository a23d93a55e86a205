import type { JsonObject } from '@tollway/chassis/json.ts'
import { type Calendar, type CalendarUnit, openCalendar } from './calendar.ts'
import { type Algorithm, effectiveFields, type LimitFields, limitFields } from './fields.ts'
import type { RateLimitPolicy } from './model.ts'
import { sanitizeStatName } from './names.ts'
import { ticksPerSecond } from './ticks.ts'
import { parseUnit, type Unit, unitSeconds } from './units.ts'
import type { WindowBounds } from './window.ts'

export interface Limit<S> extends LimitSettings, WindowBounds {
  readonly stats: S
  /** `fullKey` as configured: that of a limit may be named after a request. Empty for a caller's limit. */
  readonly configuredKey: string
  /** How calls are admitted by a limit that not only counts; undefined for a fixed window by itself. */
  readonly admission: LimitAdmission | undefined
  /** The limits that admit calls together, instead of this one; undefined if there is only this one. */
  readonly members: readonly Limit<S>[] | undefined
}

/** The numbers of a limit that the counters admit calls by. */
interface LimitAdmission {
  readonly algorithm: Algorithm
  /** The hits that the limit admits at once. */
  readonly capacity: number
  readonly ticksPerSecond: number
  /** The end of the cache key, without the start of a fixed window. */
  readonly keySuffix: string
}

export interface LimitSettings extends LimitFields {
  /** The limit's name, which other limits may replace and which answers report. Empty when it has none. */
  readonly name: string
  /** `domain.key_value.key2_value2`: the name of the limit in listings. */
  readonly fullKey: string
  /** The same, as a name for statistics. */
  readonly statName: string
  /** 0 to 2^32-1. */
  readonly requestsPerUnit: number
  /** `second` for an unlimited one, where it has no meaning. */
  readonly unit: Unit
  /** The length of the window; without meaning if it is one of a calendar. */
  readonly unitSeconds: number
  /** The limits of a rule that has several; the fields of the rule itself have no meaning then. */
  readonly limits?: readonly LimitSettings[]
  /** Unlimited requests pass and are not counted. */
  readonly unlimited: boolean
  readonly shadowMode: boolean
  readonly quotaMode: boolean
  readonly replaces: readonly string[]
  readonly metadata: JsonObject | undefined
}

/** Creates a limit; `attach` creates the statistics with a name. */
export function createLimit<S>(settings: LimitSettings, attach: (statName: string) => S): Limit<S> {
  const { limits, algorithm } = settings
  const members = limits?.map((member, index) => ({
    ...createLimit(member, attach),
    admission: toAdmission(member, countEqualBefore(limits, index)),
  }))
  return {
    ...settings,
    configuredKey: settings.fullKey,
    // Only the members of a rule with several limits have statistics.
    stats: members?.[0]?.stats ?? attach(settings.statName),
    boundaries: openBoundaries(settings),
    admission: limits === undefined && algorithm !== undefined ? toAdmission(settings) : undefined,
    members,
  }
}

/** A bucket that counts rejected hits has a tick with room for a debt of this many bursts, if there is one. */
const burstsOfDebt = 1_000

/** @param equalBefore the number of members before this one that would have the same key */
export function toAdmission(settings: LimitSettings, equalBefore = 0): LimitAdmission {
  const { algorithm = 'FixedWindow', burst, requestsPerUnit, unitSeconds: windowSeconds } = settings
  const bursts = algorithm === 'TokenBucket' && settings.countRejected ? burstsOfDebt : 1
  const capacity = algorithm === 'TokenBucket' ? (burst ?? requestsPerUnit) : requestsPerUnit
  return {
    algorithm,
    capacity,
    ticksPerSecond: ticksPerSecond(bursts * Math.max(capacity, requestsPerUnit), windowSeconds) ?? 1,
    keySuffix: `${algorithm}:${windowSeconds}${equalBefore === 0 ? '' : `#${equalBefore}`}`,
  }
}

function countEqualBefore(limits: readonly LimitSettings[], index: number): number {
  const { algorithm, unitSeconds: windowSeconds } = limits[index] ?? {}
  const before = limits.slice(0, index)
  return before.filter(each => each.algorithm === algorithm && each.unitSeconds === windowSeconds).length
}

/** Returns the boundaries of windows of a calendar. */
export function openBoundaries({ unit, unitMultiplier, calendar }: LimitSettings): Calendar | undefined {
  if (calendar === undefined) return undefined
  return openCalendar({ ...calendar, unit: unit as CalendarUnit, unitMultiplier })
}

/** Returns a member of `limits`, which has the name and the flags of its own. */
export function toMemberSettings(rule: LimitSettings, policy: RateLimitPolicy, index: number): LimitSettings {
  const { name, shadowMode = false, quotaMode = false, replaces, requestsPerUnit = 0 } = policy
  const unit = parseUnit(policy.unit) ?? 'second'
  const fullKey = `${rule.fullKey}.${name || index}`
  return {
    ...effectiveFields(limitFields, policy),
    name,
    fullKey,
    statName: sanitizeStatName(fullKey),
    requestsPerUnit,
    unit,
    unitSeconds: unitSeconds[unit] * (policy.unitMultiplier ?? 1),
    unlimited: false,
    shadowMode: shadowMode || rule.shadowMode,
    quotaMode: quotaMode || rule.quotaMode,
    replaces,
    metadata: undefined,
  }
}
