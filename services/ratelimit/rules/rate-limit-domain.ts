import type { JsonObject } from '@tollway/chassis/json.ts'
import type { Weekday } from './calendar/calendar.ts'

/**
 * A rate limit configuration before validation: the common form of a YAML file, a resource of the feed and a
 * custom resource. validate.ts validates it, compile.ts compiles it.
 */
export interface RateLimitDomain {
  /** The source: the file's key or the feed's resource name. Every problem includes it. */
  readonly name: string
  readonly domain: string
  readonly descriptors: readonly RateLimitRule[]
  /** A request is counted by all of its descriptors or by none. */
  readonly allOrNothing?: boolean
}

/** The type of the feed's resources of this form, for pods of Tollway and of the reference. */
export const rateLimitTypeUrl = 'type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig'

export interface RateLimitRule {
  readonly key: string
  /** Empty for an entry that matches any value. May contain `*` anywhere. */
  readonly value: string
  readonly rateLimit?: RateLimitPolicy
  /** `minLimits` to `maxLimits` limits instead of `rateLimit`: all of them count a request, or none does. */
  readonly limits?: readonly RateLimitPolicy[]
  readonly shadowMode: boolean
  readonly detailedMetric: boolean
  readonly quotaMode: boolean
  readonly valueToMetric: boolean
  readonly shareThreshold: boolean
  readonly metadata?: JsonObject
  readonly descriptors: readonly RateLimitRule[]
}

export interface RateLimitPolicy {
  /** The unit as written, in any case; empty when left out. */
  readonly unit: string
  /**
   * An integer from 0 to 2^32-1. Undefined when left out, which counts as 0: every request is over the limit.
   */
  readonly requestsPerUnit: number | undefined
  readonly unlimited: boolean
  /** Empty when the limit has no name. */
  readonly name: string
  readonly replaces: readonly string[]
  /** The number of units in a window, from 1 to `maxUnitMultiplier`; 1 when left out. */
  readonly unitMultiplier?: number
  /** The windows are those of a calendar instead of the epoch. */
  readonly calendar?: CalendarAnchors
  /** How requests are counted; `FixedWindow` when left out. */
  readonly algorithm?: Algorithm
  /** The requests that a full `TokenBucket` admits, from 1 to 2^32-1; `requestsPerUnit` when left out. */
  readonly burst?: number
  /** Whether headers of answers list the limit; true when left out. */
  readonly headers?: boolean
  /**
   * Whether requests that are rejected count, by this limit or by another one that is decided with it; false when
   * left out. A fixed window that is alone counts them anyway.
   */
  readonly countRejected?: boolean
  /** A flag of a member of `limits`, like the flags of a descriptor; false when left out. */
  readonly shadowMode?: boolean
  readonly quotaMode?: boolean
}

/**
 * `FixedWindow` counts the requests since the window began. `SlidingWindow` adds the share of the previous
 * window that is not over yet. `TokenBucket` admits `burst` requests at once, and `requestsPerUnit` in each
 * window.
 */
export const algorithms = ['FixedWindow', 'SlidingWindow', 'TokenBucket'] as const

export type Algorithm = (typeof algorithms)[number]

/** The number of members of `limits`. */
export const minLimits = 2
export const maxLimits = 8

/** A time zone, and where the windows of its calendar begin. See `CalendarWindows` for each field. */
export interface CalendarAnchors {
  readonly timeZone: string
  readonly anchorMonth?: number
  readonly anchorDay?: number
  readonly anchorWeekday?: Weekday
}

export const maxUnitMultiplier = 1_000_000

export const maxRequestsPerUnit = 0xffffffff

/** Returns whether a value can be `requests_per_unit`: an integer from 0 to 2^32-1. */
export function isRequestsPerUnit(value: unknown): value is number {
  return Number.isInteger(value) && (value as number) >= 0 && (value as number) <= maxRequestsPerUnit
}

/**
 * Returns the composite key of a descriptor in names and messages: its key, with `_` and its value if it has
 * one.
 */
export function finalKeyOf(descriptor: { readonly key: string; readonly value: string }): string {
  return descriptor.value === '' ? descriptor.key : `${descriptor.key}_${descriptor.value}`
}

/** A problem or a warning of a configuration. */
export interface Problem {
  /** The `name` of its RateLimitDomain. */
  readonly source: string
  /**
   * The field, as spelled in the source: `descriptors[2].rate_limit.unit` in a file,
   * `descriptors[2].rateLimit.unit` in a resource. Empty for the whole configuration.
   */
  readonly path: string
  /** The reference's text, if it has one: `invalid rate limit unit 'foo'`. */
  readonly message: string
  /** The allowed values: `one of second, minute, hour, day, week, month, year`. */
  readonly allowed?: string
}

/** The spelling of fields in a source: a file uses snake_case, a resource camelCase. */
export type FieldSpelling = 'snake' | 'camel'
