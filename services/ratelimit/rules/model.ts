import type { JsonObject } from '@tollway/chassis/json.ts'
import {
  type Feature,
  features,
  isEffective,
  limitFields,
  listNames,
  type MemberFields,
  maxRequestsPerUnit,
  type RuleFlags,
} from './fields.ts'

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

/** `fields.ts` has the flags. */
export interface RateLimitRule extends RuleFlags {
  readonly key: string
  /** Empty for an entry that matches any value. May contain `*` anywhere. */
  readonly value: string
  readonly rateLimit?: RateLimitPolicy
  /** `minLimits` to `maxLimits` limits instead of `rateLimit`: all of them count a request, or none does. */
  readonly limits?: readonly RateLimitPolicy[]
  readonly metadata?: JsonObject
  readonly descriptors: readonly RateLimitRule[]
}

/** `fields.ts` has the fields that the reference does not have. */
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

/** The number of members of `limits`. */
export const minLimits = 2
export const maxLimits = 8

/** Returns whether a value can be `requests_per_unit`: an integer from 0 to 2^32-1. */
export function isRequestsPerUnit(value: unknown): value is number {
  return Number.isInteger(value) && (value as number) >= 0 && (value as number) <= maxRequestsPerUnit
}

/**
 * Returns the composite key of a descriptor in names and messages: its key, with `_` and its value if it has
 * one.
 */
export function toFinalKey(descriptor: { readonly key: string; readonly value: string }): string {
  return descriptor.value === '' ? descriptor.key : `${descriptor.key}_${descriptor.value}`
}

/** A problem or a warning of a configuration. */
export interface ConfigProblem {
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

const inOneStep: readonly Feature[] = ['algorithms', 'limits', 'allOrNothing']

/** Whether the feature counts a call in one step of the backend, as a whole or not at all. */
export const countsInOneStep = (feature: Feature): boolean => inOneStep.includes(feature)

/** The features that a process needs to enforce the domain, in the order of `features`. */
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
  for (const { rateLimit, limits, descriptors } of rules) {
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
