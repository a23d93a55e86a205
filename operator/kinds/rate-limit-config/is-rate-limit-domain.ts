import { isObject } from '@tollway/chassis/is-object.ts'
import { weekdays } from '@tollway/ratelimit/rules/calendar/calendar.ts'
import type {
  CalendarAnchors,
  RateLimitDomain,
  RateLimitPolicy,
  RateLimitRule,
} from '@tollway/ratelimit/rules/rate-limit-domain.ts'
import { algorithms, isRequestsPerUnit } from '@tollway/ratelimit/rules/rate-limit-domain.ts'
import { parseUnit } from '@tollway/ratelimit/rules/units.ts'

/**
 * Returns whether a stored value, written by this version or another one, is a valid domain of this version.
 */
export function isRateLimitDomain(value: unknown): value is RateLimitDomain {
  if (!isObject<RateLimitDomain>(value)) return false
  const { name, domain, descriptors, allOrNothing } = value
  if (!isOptional(allOrNothing, 'boolean')) return false
  return typeof name === 'string' && typeof domain === 'string' && isList(descriptors, isRule)
}

const flags = ['shadowMode', 'detailedMetric', 'quotaMode', 'valueToMetric', 'shareThreshold'] as const

function isRule(value: unknown): value is RateLimitRule {
  if (!isObject<RateLimitRule>(value)) return false
  const { key, value: wanted, rateLimit, limits, metadata, descriptors } = value
  if (typeof key !== 'string' || typeof wanted !== 'string') return false
  if (flags.some(flag => typeof value[flag] !== 'boolean')) return false
  if (metadata !== undefined && !isObject(metadata)) return false
  if (limits !== undefined && !isList(limits, isPolicy)) return false
  return (rateLimit === undefined || isPolicy(rateLimit)) && isList(descriptors, isRule)
}

function isPolicy(value: unknown): value is RateLimitPolicy {
  if (!isObject<RateLimitPolicy>(value)) return false
  const { unit, requestsPerUnit, unlimited, name, replaces, unitMultiplier, calendar } = value
  if (typeof unlimited !== 'boolean' || typeof name !== 'string') return false
  if (![unitMultiplier, value.burst].every(number => isOptional(number, 'number'))) return false
  const { algorithm, headers, countRejected, shadowMode, quotaMode } = value
  if (![headers, countRejected, shadowMode, quotaMode].every(flag => isOptional(flag, 'boolean')))
    return false
  if (algorithm !== undefined && !algorithms.some(each => each === algorithm)) return false
  if (calendar !== undefined && !isCalendar(calendar)) return false
  const isLimit = parseUnit(`${unit}`) !== undefined && isRequestsPerUnit(requestsPerUnit)
  return (isLimit || unlimited) && isList(replaces, replaced => typeof replaced === 'string')
}

function isCalendar(value: unknown): value is CalendarAnchors {
  if (!isObject<CalendarAnchors>(value)) return false
  const { timeZone, anchorMonth, anchorDay, anchorWeekday } = value
  if (![anchorMonth, anchorDay].every(anchor => isOptional(anchor, 'number'))) return false
  const isWeekday = anchorWeekday === undefined || weekdays.some(weekday => weekday === anchorWeekday)
  return typeof timeZone === 'string' && isWeekday
}

function isOptional(value: unknown, type: 'boolean' | 'number'): boolean {
  return value === undefined || typeof value === type
}

function isList(value: unknown, isItem: (item: unknown) => boolean): boolean {
  return Array.isArray(value) && value.every(isItem)
}
