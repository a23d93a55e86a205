import assert from 'node:assert/strict'
import { test } from 'node:test'
import { fromJsonString } from '@bufbuild/protobuf'
import { RateLimitResponseSchema } from '@tollway/proto/envoy/service/ratelimit/v3/rls'
import fc from 'fast-check'
import { units } from '../rules/config.ts'
import { toResponse, toResponseJson } from './messages.ts'

const uint32 = fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 0xffffffff }))
const limits = fc.record({
  name: fc.string({ unit: 'grapheme' }),
  requestsPerUnit: uint32,
  unit: fc.constantFrom(...units),
  resetSeconds: fc.integer({ min: 1, max: 31_536_000 }),
})
const statuses = fc.record(
  { over: fc.boolean(), remaining: uint32, limit: limits },
  { requiredKeys: ['over', 'remaining'] },
)
const decisions = fc.record({ over: fc.boolean(), statuses: fc.array(statuses) })

test('the answer as JSON is the answer as a message', () => {
  fc.assert(
    fc.property(decisions, decision => {
      const read = fromJsonString(RateLimitResponseSchema, toResponseJson(decision))
      assert.deepEqual(read, toResponse(decision))
    }),
  )
})
