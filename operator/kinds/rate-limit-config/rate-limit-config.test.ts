import assert from 'node:assert/strict'
import { test } from 'node:test'
import { fromBinary, toJson } from '@bufbuild/protobuf'
import { BinaryWriter } from '@bufbuild/protobuf/wire'
import type { JsonObject } from '@tollway/chassis/json.ts'
import { RateLimitConfigSchema } from '@tollway/proto/ratelimit/config/ratelimit/v3/rls_conf'
import { type Feature, features } from '@tollway/ratelimit/rules/fields.ts'
import type { RateLimitDomain, RateLimitPolicy, RateLimitRule } from '@tollway/ratelimit/rules/model.ts'
import { units } from '@tollway/ratelimit/rules/units.ts'
import fc from 'fast-check'
import { decodeDomain } from '../../../services/ratelimit/config/domain-codec.ts'
import { encodeRateLimitDomain, listShared } from './rate-limit-config.ts'

function rule(more: Partial<RateLimitRule> = {}): RateLimitRule {
  return {
    key: 'user',
    value: '',
    shadowMode: false,
    detailedMetric: false,
    quotaMode: false,
    valueToMetric: false,
    shareThreshold: false,
    descriptors: [],
    ...more,
  }
}

function policy(more: Partial<RateLimitPolicy> = {}): RateLimitPolicy {
  return { unit: 'minute', requestsPerUnit: 3, unlimited: false, name: '', replaces: [], ...more }
}

function domain(...descriptors: readonly RateLimitRule[]): RateLimitDomain {
  return { name: 'shop/checkout', domain: 'checkout', descriptors }
}

function decoded(given: RateLimitDomain): unknown {
  return toJson(RateLimitConfigSchema, fromBinary(RateLimitConfigSchema, encodeRateLimitDomain(given).bytes))
}

test('every field is encoded', () => {
  const full = rule({
    value: '/pay*',
    shadowMode: true,
    detailedMetric: true,
    quotaMode: true,
    valueToMetric: true,
    shareThreshold: true,
    metadata: { team: 'money', levels: [1, null, true, { deep: 'yes' }] },
    rateLimit: policy({ name: 'pay', replaces: ['all', 'most'] }),
    descriptors: [
      rule({ key: 'free', rateLimit: policy({ unit: '', requestsPerUnit: undefined, unlimited: true }) }),
    ],
  })
  assert.deepEqual(decoded(domain(full)), {
    name: 'shop/checkout',
    domain: 'checkout',
    descriptors: [
      {
        key: 'user',
        value: '/pay*',
        shadowMode: true,
        detailedMetric: true,
        quotaMode: true,
        valueToMetric: true,
        shareThreshold: true,
        metadata: { team: 'money', levels: [1, null, true, { deep: 'yes' }] },
        rateLimit: {
          unit: 'MINUTE',
          requestsPerUnit: 3,
          name: 'pay',
          replaces: [{ name: 'all' }, { name: 'most' }],
        },
        descriptors: [{ key: 'free', rateLimit: { unlimited: true } }],
      },
    ],
  })
})

const calendar = { timeZone: 'Asia/Tokyo', anchorMonth: 2, anchorDay: 31, anchorWeekday: 'Sunday' } as const

test('windows and calendars are encoded, and name the features that they need', () => {
  const cases: readonly (readonly [Partial<RateLimitPolicy>, readonly string[]])[] = [
    [{}, []],
    [{ unitMultiplier: 1 }, ['windows']],
    [{ unitMultiplier: 1_000_000 }, ['windows']],
    [{ calendar: { timeZone: 'UTC' } }, ['calendar']],
    [{ calendar, unitMultiplier: 3 }, ['windows', 'calendar']],
  ]
  for (const [fields, features] of cases) {
    const parent = rule({ descriptors: [rule({ rateLimit: policy(fields) })] })
    const { bytes, features: needed } = encodeRateLimitDomain(domain(parent))
    assert.deepEqual(needed, features)
    const received = decodeDomain(bytes).descriptors[0]?.descriptors[0]?.rateLimit
    assert.deepEqual(received, { ...policy(fields), unit: 'MINUTE' })
  }
})

test('algorithms, several limits, headers and atomic requests are encoded, and name their features', () => {
  const member = policy({ unit: 'MINUTE', algorithm: 'TokenBucket', burst: 7 })
  const limits = [
    member,
    policy({ unit: 'MINUTE', name: 'b', shadowMode: true, quotaMode: true, unitMultiplier: 2 }),
  ]
  const cases: readonly (readonly [
    Partial<RateLimitRule>,
    Partial<RateLimitDomain>,
    readonly string[],
    unknown,
  ])[] = [
    [{ rateLimit: policy({ algorithm: 'FixedWindow', headers: true }) }, { allOrNothing: false }, [], {}],
    [
      { rateLimit: policy({ algorithm: 'SlidingWindow' }) },
      {},
      ['algorithms'],
      { algorithm: 'SLIDING_WINDOW' },
    ],
    [{ rateLimit: policy({ headers: false }) }, {}, ['headers'], { headersOff: true }],
    [{ rateLimit: policy({ countRejected: true }) }, {}, ['countRejected'], { countRejected: true }],
    [{ rateLimit: policy({ countRejected: false }) }, {}, [], {}],
    [{ rateLimit: policy({ delivery: 'Calls' }) }, {}, [], {}],
    [{ rateLimit: policy() }, { allOrNothing: true }, ['allOrNothing'], {}],
  ]
  for (const [fields, more, features, shown] of cases) {
    const given = { ...domain(rule(fields)), ...more }
    assert.deepEqual(encodeRateLimitDomain(given).features, features)
    const { descriptors = [], allOrNothing } = decoded(given) as Shown
    assert.equal(allOrNothing, more.allOrNothing || undefined)
    assert.deepEqual(descriptors[0]?.rateLimit, { unit: 'MINUTE', requestsPerUnit: 3, ...(shown as object) })
  }
  const several = domain(rule({ limits }))
  assert.deepEqual(encodeRateLimitDomain(several).features, ['windows', 'algorithms', 'limits'])
  assert.deepEqual((decoded(several) as Shown).descriptors?.[0]?.limits, [
    { unit: 'MINUTE', requestsPerUnit: 3, algorithm: 'TOKEN_BUCKET', burst: 7 },
    { unit: 'MINUTE', requestsPerUnit: 3, name: 'b', shadowMode: true, quotaMode: true, unitMultiplier: 2 },
  ])
})

interface Shown {
  readonly allOrNothing?: boolean
  readonly descriptors?: readonly { readonly rateLimit?: unknown; readonly limits?: unknown }[]
}

const concurrency = { algorithm: 'Concurrency', maxConcurrent: 7, leaseSeconds: 30 } as const

test('a pod decodes the features that it lists', () => {
  const cases: readonly (readonly [Feature, Partial<RateLimitRule>, Partial<RateLimitDomain>])[] = [
    ['windows', { rateLimit: policy({ unitMultiplier: 2 }) }, {}],
    ['calendar', { rateLimit: policy({ unit: 'day', calendar: { timeZone: 'UTC' } }) }, {}],
    ['algorithms', { rateLimit: policy({ algorithm: 'TokenBucket', burst: 5 }) }, {}],
    ['limits', { limits: [policy({ name: 'a', shadowMode: true }), policy({ quotaMode: true })] }, {}],
    ['allOrNothing', { rateLimit: policy() }, { allOrNothing: true }],
    ['headers', { rateLimit: policy({ headers: false }) }, {}],
    ['countRejected', { rateLimit: policy({ countRejected: true }) }, {}],
    ['match', { match: { cidr: ['10.0.0.0/8', '::1'] } }, {}],
    ['groupBy', { groupBy: { ipv4Prefix: 24, ipv6Prefix: 64 } }, {}],
    ['concurrency', { rateLimit: policy({ unit: '', requestsPerUnit: 0, ...concurrency }) }, {}],
    ['leases', { rateLimit: policy({ counting: 'Leased' }) }, {}],
    ['quota', { rateLimit: policy({ requestsPerUnit: 60, delivery: 'Quota' }) }, {}],
  ]
  assert.deepEqual(
    cases.map(([feature]) => feature),
    features,
  )
  const upper = (limit: RateLimitPolicy) => ({ ...limit, unit: limit.unit.toUpperCase() })
  for (const [feature, fields, more] of cases) {
    const { bytes, features: needed } = encodeRateLimitDomain({ ...domain(rule(fields)), ...more })
    assert.deepEqual(needed, feature === 'concurrency' ? ['algorithms', feature] : [feature])
    const { rateLimit, limits, ...others } = fields
    const received = rule({
      ...others,
      ...(rateLimit && { rateLimit: upper(rateLimit) }),
      ...(limits && { limits: limits.map(upper) }),
    })
    assert.deepEqual(decodeDomain(bytes), { ...domain(received), ...more })
  }
})

test('a pod rejects fields of later versions by their number, and names the message', () => {
  const unknown = (path: readonly number[], no: number) => {
    let bytes = new BinaryWriter().tag(no, 0).uint32(1).finish()
    for (const number of path.toReversed()) bytes = new BinaryWriter().tag(number, 2).bytes(bytes).finish()
    return () => decodeDomain(bytes)
  }
  assert.throws(unknown([], 1003), /field 1003 of RateLimitConfig is unknown: it needs a newer version/)
  assert.throws(unknown([3], 1006), /field 1006 of ratelimit\.config\.ratelimit\.v3\.RateLimitDescriptor is/)
  assert.throws(unknown([3, 4, 3], 1999), /field 1999 of .*RateLimitPolicy is unknown/)
  assert.throws(unknown([3, 3, 1002], 9), /field 9 of .*RateLimitCalendar is unknown/)
  assert.throws(unknown([3, 1004], 9), /field 9 of .*RateLimitMatch is unknown/)
  assert.throws(unknown([3, 1005], 9), /field 9 of .*RateLimitGroupBy is unknown/)
  assert.doesNotThrow(unknown([3, 3], 99))
  assert.doesNotThrow(unknown([], 99))
})

for (const unit of units) {
  test(`the unit ${unit} keeps its name`, () => {
    const shown = JSON.stringify(decoded(domain(rule({ rateLimit: policy({ unit }) }))))
    assert.match(shown, new RegExp(`"unit":"${unit.toUpperCase()}"`))
  })
}

test('an unknown unit is an internal error', () => {
  for (const unit of ['', 'fortnight', 'toString']) {
    const given = domain(rule({ rateLimit: policy({ unit }) }))
    assert.throws(() => encodeRateLimitDomain(given), /is not one of second, minute, /)
  }
})

test('the encoding never changes, so that an upgrade makes no pod load again', () => {
  const given = domain(rule({ rateLimit: policy(), metadata: { b: 1, a: 'x' } }))
  assert.equal(encodeRateLimitDomain(given).hash, '7ab9c50efbe6cacff4f8d75248e1eba3')
})

test('equal content has equal bytes, whatever the order of its metadata', () => {
  const metadata = fc.object({
    maxDepth: 3,
    values: [fc.string({ unit: 'binary' }), fc.double(), fc.boolean()],
  })
  fc.assert(
    fc.property(metadata, given => {
      const json = JSON.parse(JSON.stringify(given)) as JsonObject
      const bytes = (object: JsonObject) => encodeRateLimitDomain(domain(rule({ metadata: object }))).bytes
      assert.deepEqual(bytes(reversed(json) as JsonObject), bytes(json))
    }),
  )
})

function reversed(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(reversed)
  if (value === null || typeof value !== 'object') return value
  return Object.fromEntries(
    Object.entries(value)
      .reverse()
      .map(([name, inner]) => [name, reversed(inner)]),
  )
}

test('text that is not Unicode is encoded with replacement characters', () => {
  const broken = domain(rule({ value: 'a\ud800b', metadata: { 'k\udc00': '\ud800', ['__proto__']: 'own' } }))
  assert.match(JSON.stringify(decoded(broken)), /a\ufffdb/)
})

test('finds the largest lease and a quota in a domain of 200,000 rules', () => {
  const rules = Array.from({ length: 200_000 }, () => rule({ rateLimit: policy() }))
  assert.deepEqual(listShared([domain(...rules.slice(0, 10))]), [])
  const leased = rule({ rateLimit: policy({ requestsPerUnit: 3200, counting: 'Leased' }) })
  const shared = rule({ descriptors: [rule({ rateLimit: policy({ delivery: 'Quota' }) })] })
  const descriptors = [...rules, leased, shared]
  assert.deepEqual(listShared([{ name: 'shop/checkout', domain: 'checkout', descriptors }]), [
    { domain: 'checkout', hasQuota: true, largestLease: 200 },
  ])
})
