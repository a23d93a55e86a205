import assert from 'node:assert/strict'
import { test } from 'node:test'
import { fromBinary, fromJsonString } from '@bufbuild/protobuf'
import { RateLimitResponseSchema } from '@tollway/proto/envoy/service/ratelimit/v3/rls'
import fc from 'fast-check'
import type { RateLimitDecision } from '../limiter/decision.ts'
import { encodeDecision } from './encode-decision.ts'
import { encodeDecisionJson } from './encode-decision-json.ts'
import { decisions } from './testing/open-limiter.ts'

function check(decision: RateLimitDecision): void {
  const text = encodeDecisionJson(decision)
  assert.equal(text, JSON.stringify(JSON.parse(text)), 'without extra spaces')
  const read = fromJsonString(RateLimitResponseSchema, text)
  assert.deepEqual(read, fromBinary(RateLimitResponseSchema, Uint8Array.from(encodeDecision(decision))))
}

test('the JSON answer equals the answer as a message', () => {
  const extras = fc.record(
    {
      headers: fc.array(fc.record({ key: fc.string(), value: fc.string({ unit: 'grapheme' }) })),
      body: fc.string({ unit: 'grapheme', minLength: 1 }),
      metadata: fc.dictionary(fc.string(), fc.oneof(fc.string(), fc.integer(), fc.boolean())),
    },
    { requiredKeys: [] },
  )
  fc.assert(
    fc.property(decisions, extras, (decision, more) => check({ ...decision, ...more })),
    { seed: 1 },
  )
})

test('fields are in the order of declaration, and zero values are left out', () => {
  const limit = { name: 'a "b"\n', requestsPerUnit: 5, unit: 'week', resetSeconds: 1 } as const
  const over = { over: true, remaining: 0, limit }
  const zero = { over: false, remaining: 0, limit: { ...limit, name: '', requestsPerUnit: 0 } }
  const [first, second] = JSON.parse(encodeDecisionJson({ over: true, statuses: [over, zero] })).statuses
  assert.equal(
    JSON.stringify(first),
    '{"code":"OVER_LIMIT","currentLimit":{"name":"a \\"b\\"\\n","requestsPerUnit":5,"unit":"WEEK"},' +
      '"durationUntilReset":"1s"}',
  )
  assert.equal(
    JSON.stringify(second),
    '{"code":"OK","currentLimit":{"unit":"WEEK"},"durationUntilReset":"1s"}',
  )
  assert.equal(
    encodeDecisionJson({ over: false, statuses: [], headers: [] }),
    '{"overallCode":"OK","statuses":[]}',
  )
})
