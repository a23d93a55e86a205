import { isObject } from '@tollway/chassis/is-object.ts'
import { checkFields, hasRuleFlags, memberFields } from '@tollway/ratelimit/rules/fields.ts'
import {
  isRequestsPerUnit,
  type RateLimitDomain,
  type RateLimitPolicy,
  type RateLimitRule,
} from '@tollway/ratelimit/rules/model.ts'
import { parseUnit } from '@tollway/ratelimit/rules/units.ts'

/**
 * Returns whether a stored value, written by this version or another one, is a valid domain of this version.
 */
export function isRateLimitDomain(value: unknown): value is RateLimitDomain {
  if (!isObject<RateLimitDomain>(value)) return false
  const { name, domain, descriptors, allOrNothing } = value
  if (allOrNothing !== undefined && typeof allOrNothing !== 'boolean') return false
  return typeof name === 'string' && typeof domain === 'string' && isList(descriptors, isRule)
}

function isRule(value: unknown): value is RateLimitRule {
  if (!isObject<RateLimitRule>(value)) return false
  const { key, value: wanted, rateLimit, limits, metadata, descriptors } = value
  if (typeof key !== 'string' || typeof wanted !== 'string') return false
  if (!hasRuleFlags(value)) return false
  if (metadata !== undefined && !isObject(metadata)) return false
  if (limits !== undefined && !isList(limits, isPolicy)) return false
  return (rateLimit === undefined || isPolicy(rateLimit)) && isList(descriptors, isRule)
}

function isPolicy(value: unknown): value is RateLimitPolicy {
  if (!isObject<RateLimitPolicy>(value)) return false
  const { unit, requestsPerUnit, unlimited, name, replaces } = value
  if (typeof unlimited !== 'boolean' || typeof name !== 'string') return false
  if (checkFields(memberFields, value).length > 0) return false
  const isLimit = parseUnit(`${unit}`) !== undefined && isRequestsPerUnit(requestsPerUnit)
  return (isLimit || unlimited) && isList(replaces, replaced => typeof replaced === 'string')
}

function isList(value: unknown, isItem: (item: unknown) => boolean): boolean {
  return Array.isArray(value) && value.every(isItem)
}
