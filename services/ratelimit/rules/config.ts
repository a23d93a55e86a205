/**
 * A rate limit configuration before it is judged: what a YAML file, a resource of the feed or a custom
 * resource says, in one form. validate.ts judges it, compile.ts makes it fast.
 */
export interface DomainConfig {
  /** Where it comes from: the file's key or the feed's resource name. Every problem is told with it. */
  readonly name: string
  readonly domain: string
  readonly descriptors: readonly DescriptorConfig[]
}

export interface DescriptorConfig {
  readonly key: string
  /** Empty for an entry that matches any value. May hold `*` anywhere. */
  readonly value: string
  readonly rateLimit?: RateLimitConfig
  readonly shadowMode: boolean
  readonly detailedMetric: boolean
  readonly quotaMode: boolean
  readonly valueToMetric: boolean
  readonly shareThreshold: boolean
  readonly metadata?: JsonObject
  readonly descriptors: readonly DescriptorConfig[]
}

export interface RateLimitConfig {
  /** As it was written, in any case; empty when it was left out. */
  readonly unit: string
  /**
   * Whole, 0 to 2^32-1. undefined when it was left out, which counts as 0: every request is over the limit.
   */
  readonly requestsPerUnit: number | undefined
  readonly unlimited: boolean
  /** Empty when it has none. */
  readonly name: string
  readonly replaces: readonly string[]
}

export type Json = null | boolean | number | string | readonly Json[] | JsonObject
export interface JsonObject {
  readonly [name: string]: Json
}

/**
 * The length of each unit's window in seconds. Windows are aligned to the epoch; months and years are not the
 * calendar's.
 */
export const unitSeconds = {
  second: 1,
  minute: 60,
  hour: 3600,
  day: 86_400,
  week: 604_800,
  month: 2_592_000,
  year: 31_536_000,
} as const

export type Unit = keyof typeof unitSeconds

export const units = Object.keys(unitSeconds) as readonly Unit[]

/** The unit that a configuration's writer meant, in any case; undefined when there is none of this name. */
export function parseUnit(text: string): Unit | undefined {
  const upper = text.toUpperCase()
  return units.find(unit => unit.toUpperCase() === upper)
}

export const maxRequestsPerUnit = 0xffffffff

/** Whether a number can be `requests_per_unit`: whole, 0 to 2^32-1. */
export function isRequestsPerUnit(value: unknown): value is number {
  return Number.isInteger(value) && (value as number) >= 0 && (value as number) <= maxRequestsPerUnit
}

/** How a descriptor is spelled in names and messages: its key, with `_` and its value when it has one. */
export function finalKeyOf(descriptor: { readonly key: string; readonly value: string }): string {
  return descriptor.value === '' ? descriptor.key : `${descriptor.key}_${descriptor.value}`
}

/** Something wrong (or doubtful) in a configuration. */
export interface Problem {
  /** The `name` of the DomainConfig that it is in. */
  readonly source: string
  /**
   * The field, as its writer spells it: `descriptors[2].rate_limit.unit` in a file,
   * `descriptors[2].rateLimit.unit` in a resource. Empty for the whole.
   */
  readonly path: string
  /** The reference's own words where it has some: `invalid rate limit unit 'foo'`. */
  readonly message: string
  /** What would be right: `one of second, minute, hour, day, week, month, year`. */
  readonly allowed?: string
}

/** How the writer of a configuration spells its fields: a file in snake_case, a resource in camelCase. */
export type FieldSpelling = 'snake' | 'camel'
