import type { JsonObject } from '@tollway/chassis/json.ts'
import {
  type Feature,
  features,
  isEffective,
  limitFields,
  listNames,
  type MatchFields,
  type MemberFields,
  maxRequestsPerUnit,
  type RuleFlags,
} from './fields.ts'

/**
 * A rate limit configuration before validation: a YAML file, a resource of the feed and a custom resource all
 * become this form. `validateDomains` validates it, `compile` compiles it.
 */
export interface RateLimitDomain {
  /** The key of the file, or the name of the resource in the feed. Each problem names it as the source. */
  readonly name: string
  readonly domain: string
  readonly descriptors: readonly RateLimitRule[]
  /** If true, a request that one descriptor rejects is counted for none of its descriptors. */
  readonly allOrNothing?: boolean
}

/**
 * The type URL of this configuration in the feed, for Tollway's own pods and for those of
 * envoyproxy/ratelimit.
 */
export const rateLimitTypeUrl = 'type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig'

/**
 * A descriptor of the configuration, with the descriptors below it. `fields.ts` declares its flags, and how it
 * matches values.
 */
export interface RateLimitRule extends RuleFlags, MatchFields {
  readonly key: string
  /**
   * Empty for an entry that matches any value. May contain `*` anywhere. With `match`, the name of the rule,
   * which may be empty.
   */
  readonly value: string
  readonly rateLimit?: RateLimitPolicy
  /** Several limits instead of `rateLimit`: a request is counted in all of them or in none. */
  readonly limits?: readonly RateLimitPolicy[]
  readonly metadata?: JsonObject
  readonly descriptors: readonly RateLimitRule[]
}

/** A limit as configured. `fields.ts` declares the fields that envoyproxy/ratelimit does not have. */
export interface RateLimitPolicy extends MemberFields {
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
}

/** A rule with `limits` has at least `minLimits` and at most `maxLimits` of them. */
export const minLimits = 2
export const maxLimits = 8

/** Returns whether a value can be `requests_per_unit`: an integer from 0 to 2^32-1. */
export function isRequestsPerUnit(value: unknown): value is number {
  return Number.isInteger(value) && (value as number) >= 0 && (value as number) <= maxRequestsPerUnit
}

/**
 * Returns the composite key of a descriptor, `key_value`, or only `key` if it has no value. The names of
 * limits and messages are built from it.
 */
export function toFinalKey(descriptor: { readonly key: string; readonly value: string }): string {
  return descriptor.value === '' ? descriptor.key : `${descriptor.key}_${descriptor.value}`
}

/** A problem or a warning of a configuration. */
export interface ConfigProblem {
  /** The `name` of the RateLimitDomain that has the problem. */
  readonly source: string
  /**
   * The field, as spelled in the source: `descriptors[2].rate_limit.unit` in a file,
   * `descriptors[2].rateLimit.unit` in a resource. Empty for the whole configuration.
   */
  readonly path: string
  /**
   * The message of envoyproxy/ratelimit where it has one for this problem: `invalid rate limit unit 'foo'`.
   */
  readonly message: string
  /** The allowed values: `one of second, minute, hour, day, week, month, year`. */
  readonly allowed?: string
}

/** The spelling of fields in a source: a file uses snake_case, a resource camelCase. */
export type FieldSpelling = 'snake' | 'camel'

const inOneStep: readonly Feature[] = ['algorithms', 'limits', 'allOrNothing', 'concurrency', 'leases']

/**
 * Returns whether the feature needs a backend that counts a whole call, or nothing of it, in one atomic step.
 */
export const countsInOneStep = (feature: Feature): boolean => inOneStep.includes(feature)

/** Returns the features that a pod must have to enforce the domain, in the order of `features`. */
export function findFeatures({
  descriptors,
  allOrNothing,
}: Pick<RateLimitDomain, 'descriptors' | 'allOrNothing'>): readonly Feature[] {
  const needed = new Set<Feature>()
  if (allOrNothing) needed.add('allOrNothing')
  addFeatures(descriptors, needed)
  return needed.size === 0 ? noFeatures : features.filter(feature => needed.has(feature))
}

const noFeatures: readonly Feature[] = []

function addFeatures(rules: readonly RateLimitRule[], needed: Set<Feature>): void {
  for (const { match, groupBy, rateLimit, limits, descriptors } of rules) {
    if (match !== undefined) needed.add('match')
    if (groupBy !== undefined) needed.add('groupBy')
    if (rateLimit !== undefined) addLimitFeatures(rateLimit, needed)
    if (limits !== undefined) {
      needed.add('limits')
      for (const limit of limits) addLimitFeatures(limit, needed)
    }
    addFeatures(descriptors, needed)
  }
}

const namesOfFields = listNames(limitFields)

function addLimitFeatures(limit: RateLimitPolicy, needed: Set<Feature>): void {
  for (const name of namesOfFields) {
    if (isEffective(limitFields[name], limit[name])) needed.add(limitFields[name].feature)
  }
}
