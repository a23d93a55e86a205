import assert from 'node:assert/strict'
import { test } from 'node:test'
import { create, toBinary } from '@bufbuild/protobuf'
import {
  RateLimitConfigSchema,
  RateLimitGroupBySchema,
  RateLimitMatchSchema,
  RateLimitPolicySchema,
} from '@tollway/proto/ratelimit/config/ratelimit/v3/rls_conf'
import { effectiveFields, matchFields, memberFields, type RuleField } from '../rules/fields.ts'
import type { RateLimitPolicy } from '../rules/model.ts'
import { makeLimit, makeRule } from '../rules/testing/make-rule.ts'
import { decodeDomain, encodeDomain } from './domain-codec.ts'

function recode(limit: RateLimitPolicy): RateLimitPolicy | undefined {
  const domain = { name: 'n', domain: 'd', descriptors: [makeRule('k', { rateLimit: limit })] }
  return decodeDomain(encodeDomain(domain)).descriptors[0]?.rateLimit
}

/** Returns values of a field: the least and the greatest number, all words, and maps of such values. */
function valuesOf(field: RuleField): readonly unknown[] {
  switch (field.kind) {
    case 'flag':
      return [false, true]
    case 'count':
      return [1, field.maximum]
    case 'choice':
      return field.words
    case 'text':
      return ['UTC']
    case 'texts':
      return [['a'], ['a', 'b']]
    case 'group': {
      const ends = (at: 0 | -1) =>
        Object.fromEntries(Object.entries(field.fields).map(([name, one]) => [name, valuesOf(one).at(at)]))
      return [ends(0), ends(-1)]
    }
  }
}

test('each field of a limit survives the feed, and one with the default of its field is left out', () => {
  for (const [name, field] of Object.entries(memberFields)) {
    for (const value of valuesOf(field)) {
      const limit = makeLimit(3, 'MINUTE', { [name]: value })
      const expected = { ...makeLimit(3, 'MINUTE'), ...effectiveFields(memberFields, limit) }
      assert.deepEqual(recode(limit), expected, `${name}: ${JSON.stringify(value)}`)
    }
  }
})

test('each field of the message of a limit is of the reference or in the table', () => {
  const own = RateLimitPolicySchema.fields.filter(({ number }) => number > 1000)
  assert.deepEqual(
    own.map(({ localName }) => localName.replace(/Off$/, '')).sort(),
    Object.keys(memberFields).sort(),
  )
})

test('each way to match survives the feed, and each field of the messages is in the table', () => {
  for (const [name, table] of Object.entries(matchFields)) {
    for (const [field, one] of Object.entries<RuleField>(table.fields)) {
      for (const value of valuesOf(one)) {
        const rule = makeRule('k', { [name]: { [field]: value } })
        const domain = { name: 'n', domain: 'd', descriptors: [rule] }
        assert.deepEqual(decodeDomain(encodeDomain(domain)), domain)
      }
    }
  }
  const namesOf = (schema: typeof RateLimitMatchSchema | typeof RateLimitGroupBySchema) =>
    schema.fields.map(({ localName }) => localName).sort()
  assert.deepEqual(namesOf(RateLimitMatchSchema), Object.keys(matchFields.match.fields).sort())
  assert.deepEqual(namesOf(RateLimitGroupBySchema), Object.keys(matchFields.groupBy.fields).sort())
})

test('a word that this version does not know is rejected with its field', () => {
  const decode = (policy: object) => {
    const descriptors = [{ key: 'k', rateLimit: policy }]
    return () => decodeDomain(toBinary(RateLimitConfigSchema, create(RateLimitConfigSchema, { descriptors })))
  }
  const needsNewer = 'it needs a newer version of this program'
  assert.throws(decode({ algorithm: 9 }), { message: `algorithm 9 is unknown: ${needsNewer}` })
  const calendar = { timeZone: 'UTC', anchorWeekday: 8 }
  assert.throws(decode({ calendar }), { message: `anchorWeekday 8 is unknown: ${needsNewer}` })
})
