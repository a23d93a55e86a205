import { fromBinary, type Message } from '@bufbuild/protobuf'
import { BinaryReader } from '@bufbuild/protobuf/wire'
import {
  RateLimitAlgorithm as AlgorithmNumber,
  type RateLimitCalendar as CalendarMessage,
  type RateLimitDescriptor as DescriptorMessage,
  type RateLimitPolicy as PolicyMessage,
  RateLimitDescriptorSchema,
  RateLimitUnit,
} from '@tollway/proto/ratelimit/config/ratelimit/v3/rls_conf'
import { weekdays } from '../rules/calendar/calendar.ts'
import {
  type Algorithm,
  algorithms,
  type CalendarAnchors,
  type JsonObject,
  type RateLimitDomain,
  type RateLimitPolicy,
  type RateLimitRule,
} from '../rules/config.ts'

/**
 * Decodes a resource of the feed, an encoded ratelimit.config.ratelimit.v3.RateLimitConfig, to the common
 * form of configurations. It does not validate. Descriptors are decoded one at a time: the messages of
 * 100,000 together would take 200 MiB.
 *
 * @throws Error for bytes that are not such a message, and for extensions that this version does not know
 */
export function decodeResource(bytes: Uint8Array): RateLimitDomain {
  const reader = new BinaryReader(bytes)
  const descriptors: RateLimitRule[] = []
  let name = ''
  let domain = ''
  let allOrNothing = false
  while (reader.pos < reader.len) {
    const [fieldNumber, wireType] = reader.tag()
    if (fieldNumber === 1) name = reader.string()
    else if (fieldNumber === 2) domain = reader.string()
    else if (fieldNumber === 3) descriptors.push(decodeDescriptor(readDescriptor(reader.bytes())))
    else if (fieldNumber === 1001) allOrNothing = reader.bool()
    else if (fieldNumber >= firstOwnField) {
      throw new Error(
        `field ${fieldNumber} of RateLimitConfig is unknown: it needs a newer version of this program`,
      )
    } else reader.skip(wireType, fieldNumber)
  }
  return { name, domain, descriptors, ...(allOrNothing && { allOrNothing }) }
}

function readDescriptor(bytes: Uint8Array): DescriptorMessage {
  return fromBinary(RateLimitDescriptorSchema, bytes)
}

function decodeDescriptor(message: DescriptorMessage): RateLimitRule {
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
    ...(message.rateLimit && { rateLimit: decodePolicy(message.rateLimit) }),
    ...(message.limits.length > 0 && { limits: message.limits.map(decodePolicy) }),
    ...(message.metadata && { metadata: message.metadata as JsonObject }),
    descriptors: message.descriptors.map(decodeDescriptor),
  }
}

function decodePolicy(message: PolicyMessage): RateLimitPolicy {
  refuseUnknown(message)
  return {
    unit: message.unit === RateLimitUnit.UNKNOWN ? '' : (RateLimitUnit[message.unit] ?? `${message.unit}`),
    requestsPerUnit: message.requestsPerUnit,
    unlimited: message.unlimited,
    name: message.name,
    replaces: message.replaces.map(({ name }) => name),
    ...(message.unitMultiplier !== 0 && { unitMultiplier: message.unitMultiplier }),
    ...(message.calendar && { calendar: decodeCalendar(message.calendar) }),
    ...(message.algorithm !== AlgorithmNumber.FIXED_WINDOW && { algorithm: decodeAlgorithm(message) }),
    ...(message.burst !== 0 && { burst: message.burst }),
    ...(message.headersOff && { headers: false }),
    ...(message.shadowMode && { shadowMode: true }),
    ...(message.quotaMode && { quotaMode: true }),
  }
}

function decodeAlgorithm({ algorithm: number }: PolicyMessage): Algorithm {
  const algorithm = algorithms[number]
  if (algorithm === undefined) {
    throw new Error(`algorithm ${number} is unknown: it needs a newer version of this program`)
  }
  return algorithm
}

function decodeCalendar(message: CalendarMessage): CalendarAnchors {
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

/** The first number of extensions in messages of the reference. */
const firstOwnField = 1000

/** An unknown extension may change the limit, so this version must not ignore it. */
function refuseUnknown({ $typeName, $unknown = [] }: Message, firstNumber = firstOwnField): void {
  const field = $unknown.find(({ no }) => no >= firstNumber)
  if (field === undefined) return
  throw new Error(`field ${field.no} of ${$typeName} is unknown: it needs a newer version of this program`)
}
