import { type DescField, type DescMessage, fromBinary, ScalarType } from '@bufbuild/protobuf'
import { BinaryWriter, WireType } from '@bufbuild/protobuf/wire'
import {
  type AnimationData,
  type AnimationDataStream,
  type AnimationDataStreamHeader,
  AnimationDataStreamSchema,
  type Camera,
  type SkelAnimation,
} from '@tollway/proto/neutral_ace/services/animation_data/v1/animation_data'
import { maxIdCharacters } from '../animation-ids.ts'
import type { Message, TimeCodeRange, TimedList } from '../message.ts'
import { animationStatusCodes } from '../status.ts'

export const streamSchema = AnimationDataStreamSchema

/**
 * Returns the result of the generated decoder in the form of `readMessage`; `rejected` if the decoder throws.
 */
export function readByGenerated(bytes: Uint8Array): Message | 'rejected' | 'id too long' {
  let message: AnimationDataStream
  try {
    message = fromBinary(streamSchema, bytes)
  } catch {
    return 'rejected'
  }
  const { case: part, value } = message.streamPart
  switch (part) {
    case 'animationDataStreamHeader':
      return toHeader(value)
    case 'animationData':
      return toData(value)
    case 'status':
      return {
        part: 'status',
        status: { code: animationStatusCodes[value.code] ?? 'ERROR', message: value.message },
      }
    default:
      return { part: 'none' }
  }
}

function toHeader(header: AnimationDataStreamHeader): Message | 'id too long' {
  const { requestId = '', streamId = '', targetObjectId = '' } = header.animationIds ?? {}
  const texts = [requestId, streamId, targetObjectId, header.sourceServiceId]
  if (texts.some(text => [...text].length > maxIdCharacters)) return 'id too long'
  const audio = header.audioHeader
  return {
    part: 'header',
    ids: { requestId, streamId, targetObjectId },
    sourceServiceId: header.sourceServiceId,
    audio: audio && {
      format: audio.audioFormat,
      channelCount: audio.channelCount,
      samplesPerSecond: audio.samplesPerSecond,
      bitsPerSample: audio.bitsPerSample,
    },
    blendShapes: header.skelAnimationHeader?.blendShapes.length ?? 0,
    joints: header.skelAnimationHeader?.joints.length ?? 0,
    startTimeCode: header.startTimeCodeSinceEpoch,
  }
}

function toData({ skelAnimation, audio, camera }: AnimationData): Message {
  return {
    part: 'data',
    skelAnimation: skelAnimation && toSkelAnimation(skelAnimation),
    audio: audio && { timeCode: audio.timeCode, bytes: audio.audioBuffer.length },
    camera: camera && toCamera(camera),
  }
}

type Timed = { readonly timeCode: number }
type TimedArray = Timed & { readonly values: readonly unknown[] }

function toSkelAnimation(skel: SkelAnimation) {
  const { blendShapeWeights, translations, rotations, scales } = skel
  return {
    ...findRange([...blendShapeWeights, ...translations, ...rotations, ...scales]),
    weights: toList(blendShapeWeights),
    translations: toList(translations),
    rotations: toList(rotations),
    scales: toList(scales),
  }
}

function toCamera({ position, rotation, focalLength, focusDistance }: Camera): TimeCodeRange {
  return findRange([...position, ...rotation, ...focalLength, ...focusDistance])
}

function findRange(entries: readonly Timed[]): TimeCodeRange {
  const [earliest, ...later] = entries
    .map(({ timeCode }) => timeCode)
    .filter(Number.isFinite)
    .map(timeCode => (timeCode === 0 ? 0 : timeCode))
    .sort((a, b) => a - b)
  return { earliest, latest: later.at(-1) ?? earliest }
}

function toList(arrays: readonly TimedArray[]): TimedList | undefined {
  const timeCodes = arrays.map(({ timeCode }) => timeCode)
  const lengths = arrays.map(({ values }) => values.length)
  const [first] = timeCodes
  if (first === undefined) return undefined
  const wrong = timeCodes.findIndex((found, at) => {
    const before = at === 0 ? -Infinity : (timeCodes[at - 1] ?? 0)
    return !(Number.isFinite(found) && found > before)
  })
  const found = timeCodes[wrong]
  return {
    lastTimeCode: timeCodes.at(-1) ?? first,
    disorder: found === undefined ? undefined : { found, previous: timeCodes[wrong - 1] },
    fewestValues: Math.min(...lengths),
    mostValues: Math.max(...lengths),
  }
}

/** Thrown for bytes that the reader under test rejects although the generated decoder may accept them. */
export class TooLoose extends Error {}

export interface Strict {
  /** The fields of the schema, with the wire types of the schema. */
  readonly clean: Uint8Array
  /** Why the generated decoder may read the bytes differently from `clean`; empty if both must agree. */
  readonly differences: readonly string[]
}

/**
 * Removes what the reader under test intentionally reads differently from the generated decoder, so that both
 * must agree on the remaining bytes.
 *
 * @throws TooLoose for bytes that the reader under test always rejects
 */
export function toStrict(schema: DescMessage, bytes: Uint8Array): Strict {
  const writer = new BinaryWriter()
  const differences: string[] = []
  for (const { no, wireType, content } of strictFields(bytes)) {
    const field = schema.fields.find(({ number }) => number === no)
    if (field === undefined) continue
    if (!findWireTypes(field).includes(wireType)) {
      differences.push(`${field.name} has the wire type ${wireType}`)
      continue
    }
    writer.tag(no, wireType)
    if (wireType !== WireType.LengthDelimited) writer.raw(content)
    else writer.bytes(strictContent(field, content, differences))
  }
  return { clean: writer.finish(), differences }
}

function strictContent(field: DescField, content: Uint8Array, differences: string[]): Uint8Array {
  if (field.fieldKind === 'list' && field.listKind === 'scalar' && field.scalar === ScalarType.FLOAT) {
    if (content.length % 4 !== 0) throw new TooLoose('a part of a float')
  }
  if (field.fieldKind === 'map') return strictEntry(content, differences)
  if (field.message === undefined) return content
  const inner = toStrict(field.message, content)
  differences.push(...inner.differences)
  return inner.clean
}

/** Removes the values of a metadata entry, and keeps the keys. */
function strictEntry(content: Uint8Array, differences: string[]): Uint8Array {
  const writer = new BinaryWriter()
  for (const { no, wireType, content: inner } of strictFields(content)) {
    if (no === 1 && wireType === WireType.LengthDelimited) writer.tag(1, wireType).bytes(inner)
    else if (no < 3) differences.push('a value of metadata')
  }
  return writer.finish()
}

function findWireTypes(field: DescField): readonly WireType[] {
  if (field.fieldKind === 'enum') return [WireType.Varint]
  const scalar = field.fieldKind === 'scalar' || field.fieldKind === 'list' ? field.scalar : undefined
  switch (scalar) {
    case ScalarType.DOUBLE:
      return [WireType.Bit64]
    case ScalarType.UINT32:
      return [WireType.Varint]
    case ScalarType.FLOAT:
      return field.fieldKind === 'list' ? [WireType.Bit32, WireType.LengthDelimited] : [WireType.Bit32]
    default:
      return [WireType.LengthDelimited]
  }
}

interface WireField {
  readonly no: number
  readonly wireType: WireType
  /** The content of the field without the length before it. */
  readonly content: Uint8Array
}

/** Reads the fields of one message, with no code in common with the reader under test. */
function strictFields(bytes: Uint8Array): WireField[] {
  const fields: WireField[] = []
  let rest = bytes
  const take = (size: number) => {
    if (size > rest.length) throw new TooLoose('it is cut off')
    const taken = rest.subarray(0, size)
    rest = rest.subarray(size)
    return taken
  }
  const takeVarint = () => take(rest.findIndex(byte => byte < 0x80) + 1 || rest.length + 1)
  while (rest.length > 0) {
    const tag = shortValue(takeVarint())
    const no = tag >>> 3
    const wireType: WireType = tag & 7
    if (no === 0) throw new TooLoose('field 0')
    if (wireType === WireType.Varint) {
      const content = takeVarint()
      if (content.length > 10) throw new TooLoose('a long varint')
      fields.push({ no, wireType, content })
    } else if (wireType === WireType.Bit64) fields.push({ no, wireType, content: take(8) })
    else if (wireType === WireType.Bit32) fields.push({ no, wireType, content: take(4) })
    else if (wireType === WireType.LengthDelimited) {
      fields.push({ no, wireType, content: take(shortValue(takeVarint())) })
    } else throw new TooLoose('a group')
  }
  return fields
}

function shortValue(varint: Uint8Array): number {
  if (varint.length > 5) throw new TooLoose('more than 32 bits')
  const value = varint.reduceRight((sum, byte) => sum * 128 + (byte & 0x7f), 0)
  if (value >= 2 ** 32) throw new TooLoose('more than 32 bits')
  return value
}
