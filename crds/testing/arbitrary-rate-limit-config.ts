import { type FieldTable, limitFields, matchFields, type RuleField } from '@tollway/ratelimit/rules/fields.ts'
import { units } from '@tollway/ratelimit/rules/units.ts'
import fc from 'fast-check'

/** How many values are right for each wrong one: a resource has many values, and half of the resources are valid. */
const rightForOneWrong = 150

/** Generates mostly values of `right`, and sometimes values of `wrong`. */
function mostly(
  right: fc.Arbitrary<unknown>,
  wrong: fc.Arbitrary<unknown> = anything,
): fc.Arbitrary<unknown> {
  return fc.oneof({ weight: rightForOneWrong, arbitrary: right }, { weight: 1, arbitrary: wrong })
}

const anything = fc.constantFrom<unknown>(null, '', 'text', 0, -1, 1.5, true, false, [], {}, ['a'], {
  name: 'a',
})

const oneOf = (...texts: readonly string[]) => fc.constantFrom(...texts)
/** Generates maps with all fields of `required`, and any fields of `more`. */
const mapOf = (
  required: Record<string, fc.Arbitrary<unknown>>,
  more: Record<string, fc.Arbitrary<unknown>> = {},
) => fc.record({ ...required, ...more }, { requiredKeys: Object.keys(required) })
/** Generates maps with any fields of all these maps. */
const mergeOf = (...maps: readonly fc.Arbitrary<unknown>[]) =>
  fc.tuple(...maps).map(parts => Object.assign({}, ...parts) as object)

/** Returns a generator for each field of a table. A few of the values are out of bounds. */
function fieldsOf<Name extends string>(table: FieldTable & Record<Name, RuleField>) {
  return Object.fromEntries(Object.entries(table).map(([name, field]) => [name, valueFor(field)])) as Record<
    Name,
    fc.Arbitrary<unknown>
  >
}

function valueFor(field: RuleField): fc.Arbitrary<unknown> {
  switch (field.kind) {
    case 'flag':
      return fc.boolean()
    case 'count':
      return mostly(
        fc.oneof(fc.integer({ min: 1, max: 3 }), fc.integer({ min: 1, max: field.maximum })),
        fc.constantFrom(0, field.maximum + 1),
      )
    case 'choice':
      return mostly(oneOf(...field.words), fc.constant('Someday'))
    case 'text':
      return oneOf('a', 'b')
    case 'texts':
      return fc.uniqueArray(oneOf('a', 'b', 'c'), { minLength: 1, maxLength: 2 })
    case 'group':
      return fc.record(fieldsOf(field.fields), { requiredKeys: [] })
  }
}

const ofLimit = fieldsOf(limitFields)
const { headers, countRejected, unitMultiplier, maxConcurrent, leaseSeconds } = ofLimit
const { anchorMonth, anchorDay, anchorWeekday } = fieldsOf(limitFields.calendar.fields)
const timeZone = mostly(oneOf('UTC', 'Europe/Copenhagen', 'Asia/Tokyo'), fc.constant('Nowhere'))
const requestsPerUnit = mostly(fc.oneof(fc.nat(100), fc.nat(0xffffffff)))
const unit = mostly(oneOf(...units))
const windowOf = (algorithm: string) => ({ unit, requestsPerUnit, algorithm: fc.constant(algorithm) })
const calendarOf = (unitOfAnchors: string, anchors: Record<string, fc.Arbitrary<unknown>>) =>
  mapOf({ unit: fc.constant(unitOfAnchors), requestsPerUnit, calendar: mapOf({ timeZone }, anchors) })

/** A limit of each algorithm and calendar with the fields that it can have. */
const rightLimit = fc.oneof(
  mapOf({ unit, requestsPerUnit }, { headers, countRejected, unitMultiplier }),
  calendarOf('day', {}),
  calendarOf('week', { anchorWeekday }),
  calendarOf('year', { anchorMonth, anchorDay }),
  mapOf({ ...windowOf('SlidingWindow'), requestsPerUnit: fc.nat(100) }, { countRejected }),
  mapOf(
    { ...windowOf('TokenBucket'), requestsPerUnit: fc.nat(100) },
    { burst: fc.integer({ min: 1, max: 9 }) },
  ),
  mapOf({ algorithm: fc.constant('Concurrency'), maxConcurrent, leaseSeconds }, { headers }),
)
const limit = fc.oneof(
  { weight: 9, arbitrary: mostly(rightLimit) },
  { weight: 1, arbitrary: mapOf({ unit, requestsPerUnit }, { ...ofLimit, calendar: mapOf({ timeZone }) }) },
)

const name = oneOf('a', 'b', 'pay')
const replaces = fc.array(mostly(mapOf({ name: mostly(name) })), { maxLength: 3 })
const unlimited = mapOf(
  { unlimited: mostly(fc.constant(true)) },
  { name: mostly(fc.constant('self'), name), replaces: mostly(replaces) },
)
const rateLimit = mostly(
  fc.oneof({ weight: 4, arbitrary: limit }, { weight: 1, arbitrary: unlimited }),
  mapOf({}, { unit, requestsPerUnit, unlimited: fc.boolean() }),
)
const limits = mostly(fc.array(limit, { minLength: 2, maxLength: 3 }), fc.array(limit, { maxLength: 1 }))
const limiting = mostly(
  fc.oneof(fc.constant({}), mapOf({ rateLimit: mostly(rateLimit) }), mapOf({ limits: mostly(limits) })),
  mapOf({ rateLimit, limits }),
)

const networks = ['10.0.0.0/8', '10.1.0.0/16', '::1', '2001:db8::/32', '::ffff:192.0.2.0/120']
const cidr = fc.uniqueArray(mostly(oneOf(...networks), oneOf('10.0.0.1/8', 'a')), {
  minLength: 1,
  maxLength: 2,
})
const regex = mostly(
  oneOf('a|b', '/v[0-9]+/.*', '(?i)c{2,3}', '\\pL+'),
  oneOf('(a', '(?=a)b', 'a{2}{3}', 'a{1001}', '[[:foo:]]', 'a\\'),
)
const ways = { ...fieldsOf(matchFields.match.fields), cidr, regex }
const match = mostly(
  fc.oneof(...Object.entries(ways).map(([kind, texts]) => mapOf({ [kind]: mostly(texts) }))),
  mapOf({}, ways),
)
const { ipv4Prefix, ipv6Prefix } = fieldsOf(matchFields.groupBy.fields)
const groupBy = mostly(fc.oneof(mapOf({ ipv4Prefix }, { ipv6Prefix }), mapOf({ ipv6Prefix })))
const shareThreshold = mostly(fc.constant(true))
/** The fields that say which values a rule matches, and what it counts together. */
const matching = mostly(
  fc.oneof(
    mapOf({}, { value: mostly(oneOf('', 'a', 'b', 'c*', '*')) }),
    mapOf({ value: mostly(oneOf('c*', '*')), shareThreshold }),
    mapOf({ match }, { value: mostly(oneOf('', 'a', 'b')), shareThreshold }),
    mapOf({ match: mapOf({ cidr }), groupBy }),
    mapOf({ groupBy }),
  ),
  mapOf({}, { value: oneOf('', 'a', 'b*'), match, groupBy, shareThreshold }),
)

const key = mostly(oneOf('a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'))
const rare = mapOf(
  {},
  {
    shadowMode: mostly(fc.boolean()),
    metadata: fc.dictionary(fc.string(), fc.jsonValue({ maxDepth: 2 }), { maxKeys: 3 }),
  },
)
const unknown = mostly(fc.constant({}), mapOf({ oops: fc.constant(null) }))
const { descriptor } = fc.letrec<{ descriptor: unknown }>(tie => ({
  descriptor: mostly(
    mergeOf(
      mapOf({ key }, { descriptors: mostly(fc.array(tie('descriptor'), { maxLength: 2 })) }),
      ...[matching, limiting, rare, unknown],
    ),
  ),
}))
const descriptors = mostly(fc.array(descriptor, { minLength: 1, maxLength: 3 }), fc.constant([]))

/** Resources as parsed JSON, about half of which are valid. */
export const nearlyRightResource: fc.Arbitrary<unknown> = fc
  .record({
    apiVersion: fc.constant('tollway.dev/v1alpha1'),
    kind: fc.constant('RateLimitConfig'),
    metadata: fc.record({ name: fc.constant('a') }),
    spec: mostly(fc.record({ domain: mostly(name), descriptors })),
  })
  .map(resource => JSON.parse(JSON.stringify(resource)))
