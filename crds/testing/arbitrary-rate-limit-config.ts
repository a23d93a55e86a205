import { type FieldTable, limitFields, type RuleField } from '@tollway/ratelimit/rules/fields.ts'
import { units } from '@tollway/ratelimit/rules/units.ts'
import fc from 'fast-check'

/** Generates mostly values of `right`, and sometimes any other JSON value. */
function mostly<T>(right: fc.Arbitrary<T>): fc.Arbitrary<unknown> {
  const wrong = fc.constantFrom<unknown>(null, '', 'text', 0, -1, 1.5, true, false, [], {}, ['a'], {
    name: 'a',
  })
  return fc.oneof({ weight: 40, arbitrary: right }, { weight: 1, arbitrary: wrong })
}

const name = fc.constantFrom('a', 'b', 'pay')

/** A limit with fields of each kind. About half of the combinations are valid. */
const window = fc.record(
  {
    unit: unit(),
    requestsPerUnit: fc.oneof(fc.nat(100), fc.nat(0xffffffff)),
    ...fieldsOf(limitFields),
  },
  { requiredKeys: ['unit', 'requestsPerUnit'] },
)

/** Generates values for each field of a table; a few are out of bounds. */
function fieldsOf(table: FieldTable): Record<string, fc.Arbitrary<unknown>> {
  return Object.fromEntries(Object.entries(table).map(([name, field]) => [name, valueFor(field)]))
}

function valueFor(field: RuleField): fc.Arbitrary<unknown> {
  switch (field.kind) {
    case 'flag':
      return fc.boolean()
    case 'count':
      return fc.oneof(fc.integer({ min: 0, max: 3 }), fc.nat(field.maximum), fc.constant(field.maximum + 1))
    case 'choice':
      return fc.oneof({ weight: 9, arbitrary: fc.constantFrom(...field.words) }, fc.constant('Someday'))
    case 'text':
      return fc.constantFrom('UTC', 'Europe/Copenhagen', 'Asia/Tokyo', 'Nowhere')
    case 'texts':
      return fc.array(fc.constantFrom('a', 'b', '10.0.0.0/8', '::1'), { minLength: 1, maxLength: 2 })
    case 'group':
      return fc.record(fieldsOf(field.fields), {
        requiredKeys: Object.keys(field.fields).filter(name => 'required' in (field.fields[name] ?? {})),
      })
  }
}

const limits = fc.array(mostly(window), { minLength: 1, maxLength: 4 })

const rateLimit = fc.oneof(
  { weight: 6, arbitrary: fc.record({ unit: mostly(unit()), requestsPerUnit: mostly(fc.nat()) }) },
  {
    weight: 2,
    arbitrary: fc.record(
      {
        unlimited: mostly(fc.constant(true)),
        name: mostly(fc.constant('self')),
        replaces: mostly(replaces()),
      },
      { requiredKeys: ['unlimited'] },
    ),
  },
  { weight: 2, arbitrary: window },
  {
    weight: 1,
    arbitrary: fc.record(
      { unit: unit(), requestsPerUnit: fc.nat(), unlimited: fc.boolean() },
      { requiredKeys: [] },
    ),
  },
)

function unit(): fc.Arbitrary<string> {
  return fc.constantFrom(...units)
}

function replaces(): fc.Arbitrary<unknown[]> {
  return fc.array(mostly(fc.record({ name: mostly(name) })), { maxLength: 3 })
}

const { descriptors } = fc.letrec<{ descriptors: unknown[] }>(tie => ({
  descriptors: fc.array(
    mostly(
      fc
        .record(
          {
            key: mostly(fc.constantFrom('a', 'b', 'c', 'd', 'e')),
            value: mostly(fc.constantFrom('', 'a', 'b', 'c*', '*')),
            rateLimit: mostly(rateLimit),
            limits: mostly(limits),
            shadowMode: mostly(fc.boolean()),
            shareThreshold: mostly(fc.constant(false)),
            metadata: mostly(fc.dictionary(fc.string(), fc.jsonValue({ maxDepth: 2 }), { maxKeys: 3 })),
            descriptors: mostly(tie('descriptors')),
            oops: fc.constant(null),
          },
          { requiredKeys: ['key'] },
        )
        .map(dropMost),
    ),
    { maxLength: 3 },
  ),
}))

/**
 * Removes most generated errors: with an unknown field in every second descriptor, no resource would be
 * valid.
 */
function dropMost(descriptor: Readonly<Record<string, unknown>>): unknown {
  const { oops, ...others } = descriptor
  const { metadata, value, limits, ...rest } = others
  // With both limits and rateLimit in every second descriptor, few resources would be valid.
  if (limits !== undefined && value !== 'b') return { ...rest, value, ...(value === 'a' && { limits }) }
  return oops === null && metadata === undefined && value === 'b' ? descriptor : others
}

/** Resources as parsed JSON, about half of which are valid. */
export const nearlyRightResource: fc.Arbitrary<unknown> = fc
  .record({
    apiVersion: fc.constant('tollway.dev/v1alpha1'),
    kind: fc.constant('RateLimitConfig'),
    metadata: fc.record({ name: fc.constant('a') }),
    spec: mostly(fc.record({ domain: mostly(name), descriptors: mostly(descriptors) })),
  })
  .map(resource => JSON.parse(JSON.stringify(resource)))
