import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { create, toBinary } from '@bufbuild/protobuf'
import type { Codec } from '@tollway/grpc/server.ts'
import { GrpcError, statusName } from '@tollway/grpc/status.ts'
import { RateLimitRequestSchema } from '@tollway/proto/envoy/service/ratelimit/v3/rls'
import fc from 'fast-check'
import { type ServiceUnderAttack, startUnderAttack } from './service-under-attack.ts'

const runs = Number(process.env['FC_RUNS'] ?? 3000)
const seed = Number(process.env['FC_SEED'] ?? (process.env['SOAK'] === '1' ? Date.now() % 2 ** 31 : 1))
/** Calls in flight on the one connection. */
const inFlight = 50

const path = '/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit'
const raw: Codec<Uint8Array, Uint8Array> = { encode: bytes => bytes, decode: bytes => bytes }

const bytesOf = (request: Parameters<typeof create<typeof RateLimitRequestSchema>>[1]) =>
  toBinary(RateLimitRequestSchema, create(RateLimitRequestSchema, request))

const valid = [
  bytesOf({ domain: 'd', descriptors: [{ entries: [{ key: 'user', value: 'x' }] }] }),
  bytesOf({
    domain: 'd',
    hitsAddend: 3,
    descriptors: [
      { entries: [{ key: 'named', value: 'é☃' }], hitsAddend: 5n },
      {
        entries: [
          { key: 'level', value: 'x' },
          { key: 'user', value: 'abc' },
        ],
      },
      { entries: [{ key: 'user', value: 'own' }], limit: { requestsPerUnit: 3, unit: 4 } },
    ],
  }),
]

const edits = fc.array(
  fc.oneof(
    // Replaces a byte, which may leave the message valid.
    fc.record({ at: fc.nat(200), drop: fc.constant(1), put: fc.uint8Array({ minLength: 1, maxLength: 1 }) }),
    fc.record({
      at: fc.nat(200),
      drop: fc.nat(3),
      put: fc.constantFrom(
        [],
        [0xff, 0xff, 0xff, 0xff, 0x0f],
        ...[[0x80], [0x0b], [0x0c], [0x13, 0x13], [0x12, 0x7f], [0xc0, 0x80], [0x18, 0x05]],
      ),
    }),
  ),
  { minLength: 1, maxLength: 3 },
)

const mutated = fc.tuple(fc.constantFrom(...valid), edits).map(([message, list]) => {
  let bytes = [...message]
  for (const { at, drop, put } of list) {
    const place = at % (bytes.length + 1)
    bytes = [...bytes.slice(0, place), ...put, ...bytes.slice(place + drop)]
  }
  return Uint8Array.from(bytes)
})

describe('malformed messages', () => {
  let service: ServiceUnderAttack
  const ending: (() => Promise<unknown>)[] = []
  before(async () => {
    service = await startUnderAttack({ after: end => void ending.unshift(end) })
  })
  after(async () => {
    for (const end of ending) await end()
  })

  async function send(bytes: Uint8Array): Promise<string> {
    try {
      await service.caller.client.unary(path, raw, bytes)
      return 'OK'
    } catch (error) {
      if (!(error instanceof GrpcError)) throw error
      return `${statusName(error.code)} ${error.message}`
    }
  }

  const table: readonly (readonly [string, readonly number[], RegExp])[] = [
    ['nothing', [], /^UNKNOWN rate limit domain must not be empty$/],
    ['a domain alone', [0x0a, 1, 0x64], /^UNKNOWN rate limit descriptor list must not be empty$/],
    ['a truncated text', [0x0a, 5, 0x64], /^INTERNAL /],
    ['a text of 4 GiB', [0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f], /^INTERNAL /],
    ['a text with invalid UTF-8', [0x0a, 2, 0xc0, 0x80], /^INTERNAL /],
    ['a number without an end', [0x18, ...Array(20).fill(0xff)], /^INTERNAL /],
    ['field 0', [0x00], /^INTERNAL /],
    ['a group that does not end', [0x0a, 1, 0x64, 0x23], /^INTERNAL /],
    ['groups in groups', Array(5000).fill(0x23), /^INTERNAL /],
    ['only unknown fields', [0xa2, 0x06, 1, 0], /^UNKNOWN rate limit domain must not be empty$/],
  ]
  for (const [name, bytes, answer] of table) {
    test(`${name}: ${answer.source}`, async () => {
      assert.match(await send(Uint8Array.from(bytes)), answer)
    })
  }

  test(`${runs} mutated messages are answered or rejected (FC_SEED=${seed})`, {
    timeout: 7_200_000,
  }, async t => {
    const seen = new Map<string, number>()
    for (let done = 0; done < runs; done += inFlight) {
      const messages = fc.sample(mutated, { seed: seed + done, numRuns: inFlight })
      for (const answer of await Promise.all(messages.map(send))) {
        const status = answer.split(' ')[0] ?? ''
        assert.match(status, /^(?:OK|INTERNAL|INVALID_ARGUMENT|UNKNOWN)$/, answer)
        seen.set(status, (seen.get(status) ?? 0) + 1)
      }
    }
    t.diagnostic([...seen].map(([status, count]) => `${count} ${status}`).join(', '))
    assert.ok((seen.get('OK') ?? 0) > runs / 50, 'few were still valid, so the test covers too little')
    await service.check()
  })
})
