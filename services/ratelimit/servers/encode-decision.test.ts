import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  create,
  fromBinary,
  type JsonObject as JsonStruct,
  type MessageInitShape,
  toBinary,
  toJson,
} from '@bufbuild/protobuf'
import type { Json } from '@tollway/chassis/json.ts'
import {
  RateLimitResponse_Code as Code,
  RateLimitResponseSchema,
  RateLimitResponse_RateLimit_Unit as ResponseUnit,
  type RateLimitResponse_DescriptorStatusSchema as StatusSchema,
} from '@tollway/proto/envoy/service/ratelimit/v3/rls'
import { RateLimitUnit } from '@tollway/proto/envoy/type/v3/ratelimit_unit'
import fc from 'fast-check'
import type { DescriptorDecision, RateLimitDecision } from '../limiter/decision.ts'
import { encodeDecision } from './encode-decision.ts'
import { decisions } from './testing/open-limiter.ts'
import { overrideUnitNumbers, overrideUnits, responseUnits, toCode } from './wire-enums.ts'

/** Encodes a decision with the generated message. */
function encodeGenerated({ over, statuses, headers = [], body, metadata }: RateLimitDecision): Uint8Array {
  const message = create(RateLimitResponseSchema, {
    overallCode: toCode(over),
    statuses: statuses.map(toStatus),
    responseHeadersToAdd: headers.map(({ key, value }) => ({ key, value })),
    ...(body !== undefined && { rawBody: Buffer.from(body) }),
    ...(metadata && { dynamicMetadata: metadata as JsonStruct }),
  })
  return toBinary(RateLimitResponseSchema, message)
}

function toStatus({ over, remaining, limit }: DescriptorDecision): MessageInitShape<typeof StatusSchema> {
  const status = { code: toCode(over), limitRemaining: remaining }
  if (limit === undefined) return status
  const { name, requestsPerUnit, unit, resetSeconds } = limit
  const wireUnit = unit === undefined ? 0 : responseUnits[unit]
  return {
    ...status,
    currentLimit: { name, requestsPerUnit, unit: wireUnit },
    ...(resetSeconds !== undefined && { durationUntilReset: { seconds: BigInt(resetSeconds) } }),
  }
}

function assertEncodesTheSame(decision: RateLimitDecision): void {
  const bytes = encodeDecision(decision)
  assert.equal(Buffer.from(bytes).toString('hex'), Buffer.from(encodeGenerated(decision)).toString('hex'))
}

test('a decision has the bytes that the generated encoder writes', () => {
  fc.assert(fc.property(decisions, assertEncodesTheSame), { seed: 1, numRuns: 1000 })
})

test('lengths and numbers around each size of a varint', () => {
  const sizes = [1, 7, 14, 21, 28].flatMap(bits => [2 ** bits - 1, 2 ** bits])
  for (const number of [0, ...sizes, 0xffffffff]) {
    const name = 'ä'.repeat(Math.min(number, 40_000))
    const limit = { name, requestsPerUnit: number, unit: 'week' as const, resetSeconds: Math.max(1, number) }
    assertEncodesTheSame({ over: false, statuses: [{ over: true, remaining: number, limit }] })
  }
})

test('a reset after more than 2^32 s has the bytes that the generated encoder writes', () => {
  const longest = 315_576_000_000
  for (const resetSeconds of [
    2 ** 32 - 1,
    2 ** 32,
    2 ** 32 + 1,
    2 ** 35 - 1,
    2 ** 35,
    29_746_000_000,
    longest,
  ]) {
    const limit = { name: '', requestsPerUnit: 1, unit: 'year' as const, resetSeconds }
    assertEncodesTheSame({ over: false, statuses: [{ over: false, remaining: 0, limit }] })
  }
})

test('answers do not share their memory', () => {
  const status = { over: false, remaining: 1 }
  const first = encodeDecision({ over: false, statuses: [status] })
  const copy = Buffer.from(first)
  encodeDecision({ over: true, statuses: [{ ...status, remaining: 2 }] })
  assert.deepEqual(Buffer.from(first), copy)
})

test('headers, the body and metadata have the bytes that the generated encoder writes', () => {
  const header = fc.record({ key: fc.string(), value: fc.string({ unit: 'grapheme' }) })
  const json = fc.jsonValue({ depthSize: 'medium' }) as fc.Arbitrary<Json>
  const metadata = fc.dictionary(fc.string({ unit: 'grapheme' }), json)
  const body = fc.string({ unit: 'grapheme' })
  const extras = fc.tuple(decisions, fc.array(header), body, metadata)
  fc.assert(
    fc.property(extras, ([decision, headers, text, more]) =>
      assertEncodesTheSame({ ...decision, headers, ...(text !== '' && { body: text }), metadata: more }),
    ),
    { seed: 1, numRuns: 500 },
  )
})

test('the enum values equal those of the generated code', () => {
  const named = Object.entries(RateLimitUnit).filter(([, value]) => typeof value === 'number')
  assert.deepEqual([...overrideUnitNumbers], named)
  for (const [name, number] of overrideUnitNumbers) {
    assert.equal(overrideUnits[number], name === 'UNKNOWN' ? undefined : name.toLowerCase())
  }
  for (const [unit, number] of Object.entries(responseUnits)) {
    assert.equal(ResponseUnit[number], unit.toUpperCase())
  }
  assert.deepEqual([toCode(false), toCode(true)], [Code.OK, Code.OVER_LIMIT])
})

test('headers and metadata follow the statuses', () => {
  const headers = [{ key: 'RateLimit-Limit', value: '3' }]
  const metadata = {
    domain: 'd',
    descriptors: [{ entries: ['a=b'], hitsAddend: 2 }],
    metadata: { list: [null] },
  }
  const bytes = encodeDecision({ over: true, statuses: [{ over: true, remaining: 0 }], headers, metadata })
  const message = fromBinary(RateLimitResponseSchema, bytes)
  assert.deepEqual(toJson(RateLimitResponseSchema, message), {
    overallCode: 'OVER_LIMIT',
    statuses: [{ code: 'OVER_LIMIT' }],
    responseHeadersToAdd: headers,
    dynamicMetadata: metadata,
  })
})
