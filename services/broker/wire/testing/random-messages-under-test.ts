import { Buffer } from 'node:buffer'
import { type DescField, type DescMessage, ScalarType } from '@bufbuild/protobuf'
import { BinaryWriter, WireType } from '@bufbuild/protobuf/wire'
import fc from 'fast-check'
import { streamSchema } from './wire-under-test.ts'

/**
 * Generators of encoded messages. They have any number of their fields in any order, so that some fields
 * occur twice.
 */

type Bytes = fc.Arbitrary<Uint8Array>

/** Draws from few values, so that time codes are often equal and often increase. */
const double = fc.oneof(
  fc.integer({ min: -2, max: 9 }),
  fc.double(),
  fc.constantFrom(-0, NaN, Infinity, -Infinity),
)
const uint32 = fc.oneof(fc.nat(9), fc.constantFrom(16, 16000, 44100), fc.integer({ min: 0, max: 0xffffffff }))
const text = fc.oneof(
  fc.string({ maxLength: 20 }),
  fc.string({ unit: 'grapheme', maxLength: 20 }),
  fc.string({ unit: 'grapheme', minLength: 95, maxLength: 105 }),
)
const floats = fc.array(fc.float(), { maxLength: 6 })

const delimited = (no: number, content: Bytes): Bytes =>
  content.map(bytes => new BinaryWriter().tag(no, WireType.LengthDelimited).bytes(bytes).finish())

const varint = (no: number, values: fc.Arbitrary<number>): Bytes =>
  values.map(value => new BinaryWriter().tag(no, WireType.Varint).uint32(value).finish())

/** A field that the schema does not have. */
const unknownField: Bytes = fc
  .tuple(fc.integer({ min: 7, max: 100_000 }), fc.nat(3), fc.uint8Array({ minLength: 8, maxLength: 200 }))
  .map(([no, kind, bytes]) => {
    const writer = new BinaryWriter()
    if (kind === 0)
      return writer.tag(no, WireType.Varint).uint64(Buffer.from(bytes).readBigUInt64LE()).finish()
    if (kind === 1) return writer.tag(no, WireType.Bit64).raw(bytes.subarray(0, 8)).finish()
    if (kind === 2) return writer.tag(no, WireType.Bit32).raw(bytes.subarray(0, 4)).finish()
    return writer.tag(no, WireType.LengthDelimited).bytes(bytes).finish()
  })

function generateFields(schema: DescMessage, maxFields: number): Bytes {
  const known = schema.fields.map(field => ({ arbitrary: generateField(field, maxFields), weight: 4 }))
  const field = fc.oneof(...known, { arbitrary: unknownField, weight: 1 })
  return fc.array(field, { maxLength: maxFields, size: 'max' }).map(parts => Buffer.concat(parts))
}

function generateField(field: DescField, maxFields: number): Bytes {
  const no = field.number
  if (field.fieldKind === 'map') return delimited(no, delimited(1, text.map(Buffer.from)))
  if (field.fieldKind === 'enum') return varint(no, uint32)
  if (field.message !== undefined) return delimited(no, generateFields(field.message, maxFields))
  switch (field.fieldKind === 'scalar' || field.fieldKind === 'list' ? field.scalar : undefined) {
    case ScalarType.DOUBLE:
      return double.map(value => new BinaryWriter().tag(no, WireType.Bit64).double(value).finish())
    case ScalarType.UINT32:
      return varint(no, uint32)
    case ScalarType.STRING:
      return delimited(no, text.map(Buffer.from))
    case ScalarType.FLOAT:
      return field.fieldKind === 'list'
        ? floatList(no)
        : floats.map(values => unpacked(no, values.slice(0, 1)))
    default:
      return delimited(no, fc.uint8Array({ maxLength: 40 }))
  }
}

function floatList(no: number): Bytes {
  return fc.tuple(fc.boolean(), floats).map(([isPacked, values]) => {
    if (!isPacked) return unpacked(no, values)
    const packed = new BinaryWriter()
    for (const value of values) packed.float(value)
    return new BinaryWriter().tag(no, WireType.LengthDelimited).bytes(packed.finish()).finish()
  })
}

function unpacked(no: number, values: readonly number[]): Uint8Array {
  const writer = new BinaryWriter()
  for (const value of values) writer.tag(no, WireType.Bit32).float(value)
  return writer.finish()
}

/** An AnimationDataStream that every decoder accepts. */
export const encodedStream: Bytes = fc.oneof(
  generateFields(streamSchema, 3),
  ...streamSchema.fields.map(field => generateField(field, 6)),
)
