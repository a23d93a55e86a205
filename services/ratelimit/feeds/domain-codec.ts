import { create, fromBinary, type Message, type MessageInitShape, toBinary, toJson } from '@bufbuild/protobuf'
import { BinaryReader } from '@bufbuild/protobuf/wire'
import type { Json, JsonObject } from '@tollway/chassis/json.ts'
import { isList } from '@tollway/chassis/json.ts'
import {
  RateLimitAlgorithm as AlgorithmNumber,
  type RateLimitCalendar as CalendarMessage,
  type RateLimitDescriptor as DescriptorMessage,
  type RateLimitPolicy as PolicyMessage,
  type RateLimitCalendarSchema,
  RateLimitConfigSchema,
  RateLimitDescriptorSchema,
  type RateLimitPolicySchema,
  RateLimitUnit,
} from '@tollway/proto/ratelimit/config/ratelimit/v3/rls_conf'
import { weekdays } from '../rules/calendar/calendar.ts'
import {
  type Algorithm,
  algorithms,
  type CalendarAnchors,
  type RateLimitDomain,
  type RateLimitPolicy,
  type RateLimitRule,
} from '../rules/rate-limit-domain.ts'
import { parseUnit, type Unit, units } from '../rules/units.ts'

/**
 * Encodes a domain as a resource of the feed, a ratelimit.config.ratelimit.v3.RateLimitConfig. Equal domains
 * have equal bytes: fields are written in the order of their numbers, and metadata in the order of its names.
 */
export function encodeDomain({
  name,
  domain,
  descriptors,
  allOrNothing = false,
}: RateLimitDomain): Uint8Array {
  const message = { name, domain, descriptors: descriptors.map(toDescriptor), allOrNothing }
  return toBinary(RateLimitConfigSchema, create(RateLimitConfigSchema, message))
}

/** Returns an encoded domain as JSON for people. */
export function showDomain(bytes: Uint8Array): unknown {
  return toJson(RateLimitConfigSchema, fromBinary(RateLimitConfigSchema, bytes))
}

/**
 * Decodes a resource of the feed to the common form of configurations. It does not validate. Descriptors are
 * decoded one at a time: the messages of 100,000 together would take 200 MiB.
 *
 * @throws Error for bytes that are not such a message, and for extensions that this version does not know
 */
export function decodeDomain(bytes: Uint8Array): RateLimitDomain {
  const reader = new BinaryReader(bytes)
  const descriptors: RateLimitRule[] = []
  let name = ''
  let domain = ''
  let allOrNothing = false
  while (reader.pos < reader.len) {
    const [fieldNumber, wireType] = reader.tag()
    if (fieldNumber === 1) name = reader.string()
    else if (fieldNumber === 2) domain = reader.string()
    else if (fieldNumber === 3) {
      descriptors.push(fromDescriptor(fromBinary(RateLimitDescriptorSchema, reader.bytes())))
    } else if (fieldNumber === 1001) allOrNothing = reader.bool()
    else if (fieldNumber >= firstOwnField) {
      throw new Error(
        `field ${fieldNumber} of RateLimitConfig is unknown: it needs a newer version of this program`,
      )
    } else reader.skip(wireType, fieldNumber)
  }
  return { name, domain, descriptors, ...(allOrNothing && { allOrNothing }) }
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

function fromDescriptor(message: DescriptorMessage): RateLimitRule {
  refuseUnknown(message)
  const { key, value, shadowMode, detailedMetric, quotaMode, valueToMetric, shareThreshold } = message
  return {
    key,
    value,
    shadowMode,
    detailedMetric,
    quotaMode,
    valueToMetric,
    shareThreshold,
    ...(message.rateLimit && { rateLimit: fromPolicy(message.rateLimit) }),
    ...(message.limits.length > 0 && { limits: message.limits.map(fromPolicy) }),
    ...(message.metadata && { metadata: message.metadata as JsonObject }),
    descriptors: message.descriptors.map(fromDescriptor),
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
    countRejected: policy.countRejected ?? false,
  }
}

function fromPolicy(message: PolicyMessage): RateLimitPolicy {
  refuseUnknown(message)
  return {
    unit: message.unit === RateLimitUnit.UNKNOWN ? '' : (RateLimitUnit[message.unit] ?? `${message.unit}`),
    requestsPerUnit: message.requestsPerUnit,
    unlimited: message.unlimited,
    name: message.name,
    replaces: message.replaces.map(({ name }) => name),
    ...(message.unitMultiplier !== 0 && { unitMultiplier: message.unitMultiplier }),
    ...(message.calendar && { calendar: fromCalendar(message.calendar) }),
    ...(message.algorithm !== AlgorithmNumber.FIXED_WINDOW && { algorithm: fromAlgorithm(message) }),
    ...(message.burst !== 0 && { burst: message.burst }),
    ...(message.headersOff && { headers: false }),
    ...(message.shadowMode && { shadowMode: true }),
    ...(message.quotaMode && { quotaMode: true }),
    ...(message.countRejected && { countRejected: true }),
  }
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

function fromAlgorithm({ algorithm: number }: PolicyMessage): Algorithm {
  const algorithm = algorithms[number]
  if (algorithm === undefined) {
    throw new Error(`algorithm ${number} is unknown: it needs a newer version of this program`)
  }
  return algorithm
}

function toCalendar(calendar: CalendarAnchors): MessageInitShape<typeof RateLimitCalendarSchema> {
  const { timeZone, anchorMonth = 0, anchorDay = 0, anchorWeekday } = calendar
  const weekday = anchorWeekday === undefined ? 0 : weekdays.indexOf(anchorWeekday) + 1
  return { timeZone, anchorMonth, anchorDay, anchorWeekday: weekday }
}

function fromCalendar(message: CalendarMessage): CalendarAnchors {
  refuseUnknown(message, 1)
  const { timeZone, anchorMonth, anchorDay, anchorWeekday } = message
  const weekday = weekdays[anchorWeekday - 1]
  if (anchorWeekday !== 0 && weekday === undefined) {
    throw new Error(`anchor_weekday ${anchorWeekday} is not a number from 1 to ${weekdays.length}`)
  }
  return {
    timeZone,
    ...(anchorMonth !== 0 && { anchorMonth }),
    ...(anchorDay !== 0 && { anchorDay }),
    ...(weekday && { anchorWeekday: weekday }),
  }
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
/** The first number of extensions in messages of the reference. */
const firstOwnField = 1000

/** An unknown extension may change the limit, so this version must not ignore it. */
function refuseUnknown({ $typeName, $unknown = [] }: Message, firstNumber = firstOwnField): void {
  const field = $unknown.find(({ no }) => no >= firstNumber)
  if (field === undefined) return
  throw new Error(`field ${field.no} of ${$typeName} is unknown: it needs a newer version of this program`)
}
