import assert from 'node:assert/strict'
import { test } from 'node:test'
import { fromBinary } from '@bufbuild/protobuf'
import { DiscoveryResponseSchema } from '@tollway/proto/envoy/service/discovery/v3/discovery'
import fc from 'fast-check'
import { createDiscoveryCodec } from './discovery.ts'
import { createResource, createSnapshot } from './snapshot.ts'

const typeUrl = 'type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig'

test('a response has the encoding of the protobuf library', () => {
  const sizes = fc.array(fc.oneof(fc.nat(300), fc.constantFrom(0, 16_383, 16_384, 70_000)), { maxLength: 20 })
  fc.assert(
    fc.property(sizes, fc.string({ maxLength: 40 }), (lengths, nonce) => {
      const resources = lengths.map((length, index) =>
        createResource(`shop/${index}`, new Uint8Array(length).fill(index + 1)),
      )
      const snapshot = createSnapshot(typeUrl, resources)
      const read = fromBinary(DiscoveryResponseSchema, createDiscoveryCodec().encode({ nonce, snapshot }))
      assert.equal(read.nonce, nonce)
      assert.equal(read.versionInfo, snapshot.version)
      assert.equal(read.typeUrl, typeUrl)
      assert.deepEqual(
        read.resources.map(({ typeUrl, value }) => ({ typeUrl, value: new Uint8Array(value) })),
        Array.from(snapshot.resources.values(), ({ bytes }) => ({ typeUrl, value: bytes })),
      )
    }),
    { numRuns: 100 },
  )
})
