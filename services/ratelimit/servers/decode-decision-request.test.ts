import assert from 'node:assert/strict'
import { test } from 'node:test'
import { create, fromBinary, type MessageInitShape, toBinary } from '@bufbuild/protobuf'
import { BinaryWriter, WireType } from '@bufbuild/protobuf/wire'
import { GrpcError } from '@tollway/grpc/status.ts'
import { RateLimitRequestSchema } from '@tollway/proto/envoy/service/ratelimit/v3/rls'
import fc from 'fast-check'
import { type DecisionRequest, maxParts } from '../limiter/decision.ts'
import { decodeDecisionRequest } from './decode-decision-request.ts'
import { toDecisionRequest } from './testing/open-limiter.ts'

type Answer = { readonly request: DecisionRequest } | { readonly thrown: true }

function attempt(decode: () => DecisionRequest): Answer {
  try {
    return { request: decode() }
  } catch {
    return { thrown: true }
  }
}

/** Asserts that both decoders throw, or that both return the same. Returns the result. */
function assertSameAsGenerated(bytes: Uint8Array): Answer {
  const ours = attempt(() => decodeDecisionRequest(bytes))
  const generated = attempt(() => toDecisionRequest(fromBinary(RateLimitRequestSchema, bytes)))
  assert.deepEqual(ours, generated, `bytes ${Buffer.from(bytes).toString('hex')}`)
  return ours
}

const uint32 = fc.oneof(fc.nat(5), fc.integer({ min: 0, max: 0xffffffff }))
const uint64 = fc.oneof(fc.bigInt(0n, 5n), fc.bigInt(0n, 2n ** 64n - 1n))
const text = fc.oneof(
  fc.string(),
  fc.string({ unit: 'grapheme' }),
  fc.string({ minLength: 100, maxLength: 400 }),
)

/** A field that is in no schema, with groups of any depth. */
const unknownField: fc.Arbitrary<Uint8Array> = fc.letrec<{ field: Uint8Array }>(tie => ({
  field: fc
    .tuple(
      fc.integer({ min: 10, max: 100_000 }),
      fc.oneof(
        { depthSize: 'small' },
        uint64.map(
          value => (writer: BinaryWriter, no: number) => writer.tag(no, WireType.Varint).uint64(value),
        ),
        uint32.map(
          value => (writer: BinaryWriter, no: number) => writer.tag(no, WireType.Bit32).fixed32(value),
        ),
        uint64.map(
          value => (writer: BinaryWriter, no: number) => writer.tag(no, WireType.Bit64).fixed64(value),
        ),
        fc
          .uint8Array()
          .map(
            value => (writer: BinaryWriter, no: number) =>
              writer.tag(no, WireType.LengthDelimited).bytes(value),
          ),
        fc
          .array(tie('field'), { maxLength: 3 })
          .map(
            fields => (writer: BinaryWriter, no: number) =>
              writer.tag(no, WireType.StartGroup).raw(Buffer.concat(fields)).tag(no, WireType.EndGroup),
          ),
      ),
    )
    .map(([no, write]) => write(new BinaryWriter(), no).finish()),
})).field

const scalar = (no: number, value: fc.Arbitrary<number>) =>
  value.map(number => new BinaryWriter().tag(no, WireType.Varint).uint32(number).finish())
const string = (no: number) =>
  text.map(value => new BinaryWriter().tag(no, WireType.LengthDelimited).string(value).finish())
const message = (no: number, body: fc.Arbitrary<Uint8Array>) =>
  body.map(bytes => new BinaryWriter().tag(no, WireType.LengthDelimited).bytes(bytes).finish())

/** Fields in any order and number, so that some occur twice: messages are then merged. */
const fields = (...known: fc.Arbitrary<Uint8Array>[]) =>
  fc
    .array(fc.oneof({ arbitrary: fc.oneof(...known), weight: 9 }, unknownField), { maxLength: 6 })
    .map(parts => Buffer.concat(parts) as Uint8Array)

const wrapped = uint64.map(value => new BinaryWriter().tag(1, WireType.Varint).uint64(value).finish())
const descriptor = fields(
  message(1, fields(string(1), string(2))),
  message(2, fields(scalar(1, uint32), scalar(2, fc.oneof(fc.nat(8), uint32)))),
  message(3, fields(wrapped)),
)
const request = fields(string(1), message(2, descriptor), scalar(3, uint32))

test('requests are decoded like by the generated decoder', () => {
  let read = 0
  const property = fc.property(request, bytes => {
    if ('request' in assertSameAsGenerated(bytes)) read += 1
  })
  fc.assert(property, { seed: 1, numRuns: 2000 })
  assert.equal(read, 2000)
})

test('mutated and truncated bytes have the same result in both decoders', () => {
  let rejected = 0
  const change = fc.record({
    place: fc.nat(),
    byte: fc.oneof(fc.constantFrom(0, 0x7f, 0x80, 0xff), fc.nat(255)),
  })
  const changes = fc.array(change, { maxLength: 3 })
  const property = fc.property(request, changes, fc.option(fc.nat()), (bytes, changed, cut) => {
    const mutated = Buffer.from(bytes)
    for (const { place, byte } of changed) if (mutated.length > 0) mutated[place % mutated.length] = byte
    const answer = assertSameAsGenerated(
      cut === null ? mutated : mutated.subarray(0, cut % (mutated.length + 1)),
    )
    if ('thrown' in answer) rejected += 1
  })
  fc.assert(property, { seed: 2, numRuns: 5000 })
  assert.ok(rejected > 500, `only ${rejected} were rejected`)
})

test('random bytes have the same result in both decoders', () => {
  const likely = fc.constantFrom(0x0a, 0x12, 0x18, 0x08, 0x10, 0x1a, 0x1b, 0x1c, 0x80, 0xff, 0, 1, 2, 3, 4)
  const bytes = fc.array(likely, { maxLength: 24 }).map(list => Uint8Array.from(list))
  fc.assert(
    fc.property(bytes, bytes => void assertSameAsGenerated(bytes)),
    { seed: 3, numRuns: 10_000 },
  )
})

const edges: readonly [string, string, 'read' | 'rejected'][] = [
  // name, the bytes in hex, the result
  ['nothing', '', 'read'],
  ['a varint of ten bytes', '18ffffffffffffffffff01', 'read'],
  ['a varint of eleven bytes', '18ffffffffffffffffffff01', 'rejected'],
  ['a varint with needless bytes', '188180808000', 'read'],
  ['a tag with needless bytes', '9880808000 05', 'read'],
  ['a tag of six bytes', '988080808000 05', 'rejected'],
  ['a tag beyond 32 bits', '9880808010 05', 'rejected'],
  ['the field 0', '0005', 'rejected'],
  ['the wire type 6', '0e05', 'rejected'],
  ['a varint that is cut off', '1880', 'rejected'],
  ['a string that is cut off', '0a0261', 'rejected'],
  ['a string of the largest length', '0affffffff0f', 'rejected'],
  ['a byte order mark', '0a03efbbbf', 'read'],
  ['half a character', '0a01c3', 'rejected'],
  ['half a pair of surrogates', '0a03eda080', 'rejected'],
  ['a group', '23 0801 24', 'read'],
  ['a group in a group', '23 2b 2c 24', 'read'],
  ['a group without end', '23 0801', 'rejected'],
  ['an end without group', '24', 'rejected'],
  ['the end of another group', '23 2c', 'rejected'],
  ['an unknown varint beyond 64 bits', '20ffffffffffffffffffffffff01', 'read'],
  ['an unknown field that is cut off', '25000000', 'rejected'],
]

test('edge cases of the encoding are decoded like by the generated decoder', () => {
  for (const [what, hex, expected] of edges) {
    const answer = assertSameAsGenerated(Buffer.from(hex.replaceAll(' ', ''), 'hex'))
    assert.equal('request' in answer ? 'read' : 'rejected', expected, what)
  }
})

test('groups may be nested as deep as with the generated decoder', () => {
  const groups = (depth: number) => Buffer.from([...Array(depth).fill(0x2b), ...Array(depth).fill(0x2c)])
  const delimited = (no: number, bytes: Uint8Array) =>
    new BinaryWriter().tag(no, WireType.LengthDelimited).bytes(bytes).finish()
  const inDescriptor = (bytes: Uint8Array) => delimited(2, bytes)
  const inEntry = (bytes: Uint8Array) => inDescriptor(delimited(1, bytes))
  for (const [place, deepest] of [
    [(bytes: Uint8Array) => bytes, 99],
    [inDescriptor, 98],
    [inEntry, 97],
  ] as const) {
    assert.ok('request' in assertSameAsGenerated(place(groups(deepest))))
    assert.ok('thrown' in assertSameAsGenerated(place(groups(deepest + 1))))
  }
  assert.ok('thrown' in assertSameAsGenerated(groups(100_000)))
})

const encode = (request: MessageInitShape<typeof RateLimitRequestSchema>) =>
  toBinary(RateLimitRequestSchema, create(RateLimitRequestSchema, request))

test('a long message and one that is not a Buffer are decoded the same', () => {
  const entries = Array.from({ length: 200 }, (_, index) => ({
    key: `key-${index}`,
    value: 'ü'.repeat(index),
  }))
  const bytes = encode({ domain: 'd', descriptors: [{ entries }] })
  const inLarger = Buffer.concat([Buffer.alloc(3), bytes, Buffer.alloc(3)])
  for (const view of [
    new Uint8Array(inLarger.buffer, inLarger.byteOffset + 3, bytes.length),
    inLarger.subarray(3, 3 + bytes.length),
  ]) {
    const answer = assertSameAsGenerated(view)
    assert.ok('request' in answer)
    assert.deepEqual(answer.request.descriptors[0]?.entries, entries)
  }
})

test('more descriptors and entries than allowed are rejected without reading further', () => {
  const many = (count: number) => Array.from({ length: count }, () => ({ key: '', value: '' }))
  const cases: [MessageInitShape<typeof RateLimitRequestSchema>, boolean][] = [
    [{ descriptors: [{ entries: many(maxParts - 1) }] }, true],
    [{ descriptors: [{ entries: many(maxParts) }] }, false],
    [{ descriptors: many(maxParts).map(() => ({})) }, true],
    [{ descriptors: many(maxParts + 1).map(() => ({})) }, false],
    [{ descriptors: [{ entries: many(maxParts - 2) }, {}] }, true],
    [{ descriptors: [{ entries: many(maxParts - 2) }, { entries: many(1) }] }, false],
  ]
  const rejection = new GrpcError(
    'INVALID_ARGUMENT',
    `descriptors: at most ${maxParts} and their entries are allowed`,
  )
  for (const [message, allowed] of cases) {
    const bytes = encode(message)
    if (allowed) assert.ok('request' in assertSameAsGenerated(bytes))
    else assert.throws(() => decodeDecisionRequest(Buffer.concat([bytes, Buffer.of(0)])), rejection)
  }
})
