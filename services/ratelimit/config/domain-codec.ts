import { create, fromBinary, type Message, type MessageInitShape, toBinary, toJson } from '@bufbuild/protobuf'
import { BinaryReader } from '@bufbuild/protobuf/wire'
import { isList, type Json, type JsonObject } from '@tollway/chassis/json.ts'
import { oncePerObject } from '@tollway/chassis/once-per-object.ts'
import {
  type RateLimitDescriptor as DescriptorMessage,
  type RateLimitPolicy as PolicyMessage,
  RateLimitConfigSchema,
  RateLimitDescriptorSchema,
  type RateLimitPolicySchema,
  RateLimitUnit,
} from '@tollway/proto/ratelimit/config/ratelimit/v3/rls_conf'
import {
  entriesOf,
  type FieldTable,
  isConcurrency,
  isEffective,
  matchFields,
  memberFields,
  type RuleField,
  type ValueOf,
  type ValuesOf,
} from '../rules/fields.ts'
import type { RateLimitDomain, RateLimitPolicy, RateLimitRule } from '../rules/model.ts'
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
 * @throws Error for bytes that are not a RateLimitConfig, and for a field of Tollway that this version does
 * not know
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
  const { match: _, groupBy: __, rateLimit, limits, metadata, descriptors, ...rest } = rule
  return {
    ...rest,
    ...encodeFields(matchFields, rule),
    ...(rateLimit && { rateLimit: toPolicy(rateLimit) }),
    ...(limits && { limits: limits.map(toPolicy) }),
    ...(metadata && { metadata: sortFields(metadata) }),
    descriptors: descriptors.map(toDescriptor),
  }
}

function fromDescriptor(message: DescriptorMessage): RateLimitRule {
  rejectUnknown(message)
  // The flags are copied one by one, because a loop makes a large domain a quarter slower to read. The
  // compiler reports a flag that is missing here.
  return {
    key: message.key,
    value: message.value,
    shadowMode: message.shadowMode,
    detailedMetric: message.detailedMetric,
    quotaMode: message.quotaMode,
    valueToMetric: message.valueToMetric,
    shareThreshold: message.shareThreshold,
    ...((message.match || message.groupBy) && decodeFields(matchFields, message)),
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
    ...encodeFields(memberFields, policy),
  }
}

function fromPolicy(message: PolicyMessage): RateLimitPolicy {
  rejectUnknown(message)
  return {
    unit: message.unit === RateLimitUnit.UNKNOWN ? '' : (RateLimitUnit[message.unit] ?? `${message.unit}`),
    requestsPerUnit: message.requestsPerUnit,
    unlimited: message.unlimited,
    name: message.name,
    replaces: message.replaces.map(({ name }) => name),
    ...decodeFields(memberFields, message),
  }
}

/** Throws for a unit that validation rejects: sent as "unknown", every pod would reject it. */
function toUnit(policy: RateLimitPolicy): RateLimitUnit {
  const { unit, unlimited } = policy
  const known = parseUnit(unit)
  if (known !== undefined) return RateLimitUnit[known.toUpperCase() as Uppercase<Unit>]
  if ((unlimited || isConcurrency(policy)) && unit === '') return RateLimitUnit.UNKNOWN
  throw new Error(`unit ${JSON.stringify(unit)} is not one of ${units.join(', ')}`)
}

/** The fields that a message needs for a table. The compiler reports a message that lacks one of them. */
type WireOf<T extends FieldTable> = {
  readonly [Name in PlainNames<T> as WireName<Name, T[Name]>]: WireValue<T[Name]>
} & {
  readonly [Name in Exclude<keyof T & string, PlainNames<T>>]?: WireValue<T[Name]> | undefined
}

type PlainNames<T extends FieldTable> = {
  [Name in keyof T & string]: T[Name] extends { readonly kind: 'group' } ? never : Name
}[keyof T & string]

type WireName<Name extends string, F extends RuleField> = F extends {
  readonly kind: 'flag'
  readonly default: true
}
  ? `${Name}Off`
  : Name

type WireValue<F extends RuleField> = F extends { readonly kind: 'choice' }
  ? number
  : F extends { readonly kind: 'group'; readonly fields: infer Inner extends FieldTable }
    ? WireOf<Inner>
    : F extends { readonly kind: 'texts' }
      ? string[]
      : ValueOf<F>

type Values = Readonly<Record<string, unknown>>

/** The names of a field in memory and on the wire, made once and not for each of 100,000 rules. */
interface WireField {
  readonly name: string
  readonly wire: string
  readonly field: RuleField
}

const wireFieldsOf = oncePerObject((table: FieldTable): readonly WireField[] =>
  entriesOf(table).map(([name, field]) => {
    const isInverted = field.kind === 'flag' && field.default
    return { name, wire: isInverted ? `${name}Off` : name, field }
  }),
)

/**
 * Returns the number of the first word of a choice: 0 if the word is the default. Otherwise 1, because 0
 * means that the field is left out.
 */
const findFirstNumber = (field: RuleField) => ('default' in field ? 0 : 1)

function encodeFields<T extends FieldTable>(table: T, values: ValuesOf<T>): Partial<WireOf<T>> {
  const message: Record<string, unknown> = {}
  for (const { name, wire, field } of wireFieldsOf(table)) {
    const value = (values as Values)[name]
    if (isEffective(field, value)) message[wire] = encodeValue(field, value)
  }
  return message as Partial<WireOf<T>>
}

function encodeValue(field: RuleField, value: unknown): unknown {
  switch (field.kind) {
    case 'flag':
      return true
    case 'choice':
      return findFirstNumber(field) + field.words.indexOf(value as string)
    case 'group':
      return encodeFields(field.fields, value as Values as ValuesOf<typeof field.fields>)
    case 'count':
    case 'text':
    case 'texts':
      return value
  }
}

function decodeFields<T extends FieldTable>(table: T, message: WireOf<T>): ValuesOf<T> {
  const values: Record<string, unknown> = {}
  for (const { name, wire, field } of wireFieldsOf(table)) {
    const value = decodeValue(name, field, (message as Values)[wire])
    if (value !== undefined) values[name] = value
  }
  return values as ValuesOf<T>
}

/** Returns undefined for a field that is left out. */
function decodeValue(name: string, field: RuleField, sent: unknown): unknown {
  switch (field.kind) {
    case 'flag':
      return sent === true ? !field.default : undefined
    case 'count':
      return sent === 0 ? undefined : sent
    case 'choice': {
      if (sent === 0) return undefined
      const word = field.words[Number(sent) - findFirstNumber(field)]
      if (word !== undefined) return word
      throw new Error(`${name} ${sent} is unknown: it needs a newer version of this program`)
    }
    case 'text':
      return sent === '' ? undefined : sent
    case 'texts':
      return (sent as readonly string[]).length === 0 ? undefined : sent
    case 'group':
      if (sent === undefined) return undefined
      rejectUnknown(sent as Message, 1)
      return decodeFields(field.fields, sent as WireOf<typeof field.fields>)
  }
}

type MutableJson = null | boolean | number | string | MutableJson[] | { [name: string]: MutableJson }

function sortFields(object: JsonObject): { [name: string]: MutableJson } {
  const entries = Object.entries(object).sort(([a], [b]) => (a < b ? -1 : 1))
  return Object.fromEntries(entries.map(([name, value]) => [name, sortValue(value)]))
}

function sortValue(value: Json): MutableJson {
  if (isList(value)) return value.map(sortValue)
  return value !== null && typeof value === 'object' ? sortFields(value) : value
}

/** The first field number of Tollway's own fields in the messages of envoyproxy/ratelimit. */
const firstOwnField = 1000

/**
 * Throws if a message has an unknown field from this number on: the field may change the limit, so it must
 * not be ignored.
 */
function rejectUnknown({ $typeName, $unknown = [] }: Message, firstNumber = firstOwnField): void {
  const field = $unknown.find(({ no }) => no >= firstNumber)
  if (field === undefined) return
  throw new Error(`field ${field.no} of ${$typeName} is unknown: it needs a newer version of this program`)
}
