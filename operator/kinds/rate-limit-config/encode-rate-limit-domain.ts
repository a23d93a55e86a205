import { create, fromBinary, type MessageInitShape, toBinary, toJson } from '@bufbuild/protobuf'
import {
  type RateLimitCalendarSchema,
  RateLimitConfigSchema,
  type RateLimitDescriptorSchema,
  type RateLimitPolicySchema,
  RateLimitUnit,
} from '@tollway/proto/ratelimit/config/ratelimit/v3/rls_conf'
import { weekdays } from '@tollway/ratelimit/rules/calendar/calendar.ts'
import {
  algorithms,
  type CalendarAnchors,
  type Json,
  type JsonObject,
  parseUnit,
  type RateLimitDomain,
  type RateLimitPolicy,
  type RateLimitRule,
  type Unit,
  units,
} from '@tollway/ratelimit/rules/config.ts'
import { featuresOf } from '@tollway/ratelimit/rules/extensions/features.ts'
import { createResource, type Resource } from '../../xds/snapshot.ts'

/** The type that rate limit pods request, both Tollway's and the reference's. */
export const rateLimitTypeUrl = 'type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig'

/**
 * Encodes a domain for the feed. Equal domains have equal bytes: fields are written in the order of their
 * numbers, and metadata in the order of its names.
 */
export function encodeRateLimitDomain(content: RateLimitDomain): Resource {
  const { name, domain, descriptors, allOrNothing = false } = content
  const message = create(RateLimitConfigSchema, {
    name,
    domain,
    descriptors: descriptors.map(toDescriptor),
    allOrNothing,
  })
  return createResource(name, toBinary(RateLimitConfigSchema, message), featuresOf(content))
}

/** Returns the message as JSON. */
export function showRateLimitConfig(bytes: Uint8Array): unknown {
  return toJson(RateLimitConfigSchema, fromBinary(RateLimitConfigSchema, bytes))
}

function toDescriptor(rule: RateLimitRule): MessageInitShape<typeof RateLimitDescriptorSchema> {
  const { rateLimit, limits, metadata, descriptors, ...rest } = rule
  return {
    ...rest,
    ...(rateLimit && { rateLimit: toPolicy(rateLimit) }),
    ...(limits && { limits: limits.map(toPolicy) }),
    ...(metadata && { metadata: sorted(metadata) }),
    descriptors: descriptors.map(toDescriptor),
  }
}

function toPolicy(policy: RateLimitPolicy): MessageInitShape<typeof RateLimitPolicySchema> {
  return {
    unit: toUnit(policy),
    requestsPerUnit: policy.requestsPerUnit ?? 0,
    unlimited: policy.unlimited,
    name: policy.name,
    replaces: policy.replaces.map(name => ({ name })),
    ...(policy.unitMultiplier !== undefined && { unitMultiplier: policy.unitMultiplier }),
    ...(policy.calendar && { calendar: toCalendar(policy.calendar) }),
    algorithm: algorithms.indexOf(policy.algorithm ?? 'FixedWindow'),
    burst: policy.burst ?? 0,
    headersOff: policy.headers === false,
    shadowMode: policy.shadowMode ?? false,
    quotaMode: policy.quotaMode ?? false,
  }
}

function toCalendar(calendar: CalendarAnchors): MessageInitShape<typeof RateLimitCalendarSchema> {
  const { timeZone, anchorMonth = 0, anchorDay = 0, anchorWeekday } = calendar
  const weekday = anchorWeekday === undefined ? 0 : weekdays.indexOf(anchorWeekday) + 1
  return { timeZone, anchorMonth, anchorDay, anchorWeekday: weekday }
}

/**
 * Throws for a unit that validation did not accept: it would be sent as "unknown", which every pod rejects.
 */
function toUnit({ unit, unlimited }: RateLimitPolicy): RateLimitUnit {
  const known = parseUnit(unit)
  if (known !== undefined) return RateLimitUnit[known.toUpperCase() as Uppercase<Unit>]
  if (unlimited && unit === '') return RateLimitUnit.UNKNOWN
  throw new Error(`unit ${JSON.stringify(unit)} is not one of ${units.join(', ')}`)
}

type MutableJson = null | boolean | number | string | MutableJson[] | { [name: string]: MutableJson }

function sorted(object: JsonObject): { [name: string]: MutableJson } {
  const entries = Object.entries(object).sort(([a], [b]) => (a < b ? -1 : 1))
  return Object.fromEntries(entries.map(([name, value]) => [name, sortedValue(value)]))
}

function sortedValue(value: Json): MutableJson {
  if (isList(value)) return value.map(sortedValue)
  return value !== null && typeof value === 'object' ? sorted(value) : value
}

/** `Array.isArray` does not narrow readonly arrays. */
function isList(value: Json): value is readonly Json[] {
  return Array.isArray(value)
}
