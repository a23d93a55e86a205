import { type AnimationIds, assertIdsAreShort } from './animation-ids.ts'
import type { AudioHeader, HeaderMessage } from './message.ts'
import { delimited, fixed64, ProtobufReader, varint } from './protobuf-reader.ts'

/** A part while it is read. If it occurs again, later fields replace earlier ones. */
export type Mutable<T> = { -readonly [Key in keyof T]: T[Key] }

export interface HeaderBuilder extends Mutable<HeaderMessage> {
  readonly ids: Mutable<AnimationIds>
  audio: Mutable<AudioHeader> | undefined
}

export function emptyHeader(): HeaderBuilder {
  return {
    part: 'header',
    ids: emptyIds(),
    sourceServiceId: '',
    audio: undefined,
    blendShapes: 0,
    joints: 0,
    startTimeCode: 0,
  }
}

function emptyIds(): Mutable<AnimationIds> {
  return { requestId: '', streamId: '', targetObjectId: '' }
}

export function readHeader(reader: ProtobufReader, header: HeaderBuilder): void {
  const outer = reader.enter()
  while (reader.at < reader.end) {
    const tag = reader.tag()
    switch (tag) {
      case (1 << 3) | delimited:
        readIdsMessage(reader, header.ids)
        break
      case (2 << 3) | delimited:
        header.sourceServiceId = reader.string()
        break
      case (3 << 3) | delimited:
        header.audio ??= { format: 0, channelCount: 0, samplesPerSecond: 0, bitsPerSample: 0 }
        readAudioHeader(reader, header.audio)
        break
      case (4 << 3) | delimited:
        readSkelAnimationHeader(reader, header)
        break
      case (5 << 3) | fixed64:
        header.startTimeCode = reader.double()
        break
      case (6 << 3) | delimited:
        passMetadata(reader)
        break
      default:
        reader.skip(tag)
    }
  }
  reader.leave(outer)
}

function readIdsMessage(reader: ProtobufReader, ids: Mutable<AnimationIds>): void {
  const outer = reader.enter()
  readIds(reader, ids)
  reader.leave(outer)
}

function readIds(reader: ProtobufReader, ids: Mutable<AnimationIds>): void {
  while (reader.at < reader.end) {
    const tag = reader.tag()
    switch (tag) {
      case (1 << 3) | delimited:
        ids.requestId = reader.string()
        break
      case (2 << 3) | delimited:
        ids.streamId = reader.string()
        break
      case (3 << 3) | delimited:
        ids.targetObjectId = reader.string()
        break
      default:
        reader.skip(tag)
    }
  }
}

function readAudioHeader(reader: ProtobufReader, audio: Mutable<AudioHeader>): void {
  const outer = reader.enter()
  while (reader.at < reader.end) {
    const tag = reader.tag()
    switch (tag) {
      case (1 << 3) | varint:
        // Protobuf enums are signed.
        audio.format = reader.uint32() | 0
        break
      case (2 << 3) | varint:
        audio.channelCount = reader.uint32()
        break
      case (3 << 3) | varint:
        audio.samplesPerSecond = reader.uint32()
        break
      case (4 << 3) | varint:
        audio.bitsPerSample = reader.uint32()
        break
      default:
        reader.skip(tag)
    }
  }
  reader.leave(outer)
}

function readSkelAnimationHeader(reader: ProtobufReader, header: HeaderBuilder): void {
  const outer = reader.enter()
  while (reader.at < reader.end) {
    const tag = reader.tag()
    switch (tag) {
      case (1 << 3) | delimited:
        header.blendShapes += 1
        reader.passString()
        break
      case (2 << 3) | delimited:
        header.joints += 1
        reader.passString()
        break
      default:
        reader.skip(tag)
    }
  }
  reader.leave(outer)
}

/** Checks the key of an entry of the metadata. Producers use values of different types, which are skipped. */
function passMetadata(reader: ProtobufReader): void {
  const outer = reader.enter()
  while (reader.at < reader.end) {
    const tag = reader.tag()
    if (tag === ((1 << 3) | delimited)) reader.passString()
    else reader.skip(tag)
  }
  reader.leave(outer)
}

/**
 * The caller checks whether all three ids are empty.
 *
 * @throws MalformedMessage for bytes that are not AnimationIds, or that have groups
 * @throws IdTooLong if an id is longer than `maxIdCharacters`
 */
export function readAnimationIds(bytes: Uint8Array): AnimationIds {
  const ids = emptyIds()
  readIds(new ProtobufReader(bytes), ids)
  assertIdsAreShort(ids)
  return ids
}
