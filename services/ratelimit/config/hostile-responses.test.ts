import assert from 'node:assert/strict'
import { test } from 'node:test'
import { create, type JsonObject, toBinary } from '@bufbuild/protobuf'
import { silentLog } from '@tollway/chassis/log/log.ts'
import { DiscoveryResponseSchema } from '@tollway/proto/envoy/service/discovery/v3/discovery'
import {
  RateLimitConfigSchema,
  type RateLimitDescriptor,
  RateLimitDescriptorSchema,
  RateLimitUnit,
} from '@tollway/proto/ratelimit/config/ratelimit/v3/rls_conf'
import { DiscoverySession } from '@tollway/xds-client/discovery-session.ts'
import fc from 'fast-check'
import { rateLimitTypeUrl } from '../rules/model.ts'
import { maxHostileCpuMs, measureAsyncCpuMs } from '../rules/testing/rules-of-yaml.ts'
import { subscribe } from './open-feed.ts'
import { openConfiguration } from './testing/open-configuration.ts'

function open() {
  const { configuration, inForce } = openConfiguration('camel')
  const session = new DiscoverySession({
    ...subscribe(configuration),
    nodeId: 'pod-1',
    nodeMetadata: new Map(),
    log: silentLog,
  })
  /** Returns the rejection of a response with these bytes as its resource; undefined when it was accepted. */
  const findProblem = async (value: Uint8Array): Promise<string | undefined> => {
    const resources = [{ typeUrl: rateLimitTypeUrl, value }]
    const response = create(DiscoveryResponseSchema, {
      versionInfo: '1',
      typeUrl: rateLimitTypeUrl,
      resources,
    })
    const { request } = await session.answer(response)
    return request.errorDetail?.message
  }
  return { findProblem, inForce }
}

function nested(depth: number, metadata: JsonObject): RateLimitDescriptor {
  return create(RateLimitDescriptorSchema, {
    key: 'key',
    value: `va*ue ${depth}`,
    shareThreshold: true,
    metadata,
    rateLimit: {
      unit: RateLimitUnit.MINUTE,
      requestsPerUnit: 3,
      name: `limit ${depth}`,
      replaces: [{ name: 'other' }],
    },
    descriptors: depth > 1 ? [nested(depth - 1, metadata)] : [],
  })
}

const encode = (depth: number, metadata: JsonObject = {}) =>
  toBinary(
    RateLimitConfigSchema,
    create(RateLimitConfigSchema, { name: 'shop/a', domain: 'a', descriptors: [nested(depth, metadata)] }),
  )

/** Encodes nested descriptors, deeper than any library would. */
function encodeDeep(depth: number): Uint8Array {
  let bytes = Buffer.alloc(0)
  for (let level = 0; level < depth; level++) {
    const length: number[] = []
    for (let left = bytes.length; ; left = Math.floor(left / 128)) {
      length.push(left < 128 ? left : (left % 128) + 128)
      if (left < 128) break
    }
    // Field 4 of a descriptor and field 3 of a configuration are both lists of descriptors.
    bytes = Buffer.concat([Buffer.of(level === depth - 1 ? 0x1a : 0x22, ...length), bytes])
  }
  return bytes
}

test('descriptors that are nested too deep are rejected at any depth', async () => {
  const { findProblem } = open()
  for (const depth of [65, 99, 1000, 20_000]) {
    const bytes = encodeDeep(depth)
    let rejection: string | undefined
    const tookMs = await measureAsyncCpuMs(async () => {
      rejection = await findProblem(bytes)
    })
    assert.ok(tookMs < maxHostileCpuMs, `${depth} levels took ${tookMs} ms`)
    assert.match(rejection ?? 'accepted', /nested|recursion/, `${depth}`)
    assert.ok((rejection ?? '').length < 100_000)
  }
})

const seeds = [encode(1), encode(3, { list: [1, null, { x: true }], text: 'é' }), encode(60)]
const edits = fc.array(
  fc.record({
    at: fc.nat(),
    drop: fc.nat(4),
    put: fc.uint8Array({ maxLength: 4 }),
    times: fc.integer({ min: 1, max: 40 }),
  }),
  { minLength: 1, maxLength: 4 },
)
const numRuns = Number(process.env['FC_RUNS'] ?? 2_000)

test(`${numRuns} mutated resources are accepted or rejected with a path, and none takes long`, async () => {
  const { findProblem, inForce } = open()
  for (const seed of seeds) assert.equal(await findProblem(seed), undefined)
  let accepted = 0
  const property = fc.asyncProperty(fc.constantFrom(...seeds), edits, async (seed, list) => {
    let bytes = Buffer.from(seed)
    for (const { at, drop, put, times } of list) {
      const place = at % (bytes.length + 1)
      const repeated = Array.from({ length: times }, () => put)
      bytes = Buffer.concat([bytes.subarray(0, place), ...repeated, bytes.subarray(place + drop)])
    }
    const before = inForce()
    let rejection: string | undefined
    const tookMs = await measureAsyncCpuMs(async () => {
      rejection = await findProblem(bytes)
    })
    assert.ok(tookMs < maxHostileCpuMs, `it took ${tookMs} ms`)
    if (rejection === undefined) accepted += 1
    else {
      assert.equal(inForce(), before)
      assert.match(rejection, /^resources\[0\]: |\(at |more than \d+ findings/)
    }
  })
  await fc.assert(property, { seed: 4, numRuns })
  assert.ok(accepted > numRuns / 100, `only ${accepted} were accepted, so the test covers too little`)
})
