import assert from 'node:assert/strict'
import { test } from 'node:test'
import { fromBinary, fromJsonString } from '@bufbuild/protobuf'
import { RateLimitResponseSchema } from '@tollway/proto/envoy/service/ratelimit/v3/rls'
import fc from 'fast-check'
import { encodeDecision } from './encode-decision.ts'
import { toResponseJson } from './json-messages.ts'
import { decisions } from './servers-under-test.ts'

test('the answer as JSON is the answer as a message', () => {
  fc.assert(
    fc.property(decisions, decision => {
      const read = fromJsonString(RateLimitResponseSchema, toResponseJson(decision))
      assert.deepEqual(read, fromBinary(RateLimitResponseSchema, encodeDecision(decision)))
    }),
    { seed: 1 },
  )
})
