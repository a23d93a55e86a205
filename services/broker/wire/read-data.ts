import type { DataMessage, Disorder, SkelAnimation, TimeCodeRange, TimedList } from './message.ts'
import { delimited, fixed32, fixed64, type ProtobufReader } from './protobuf-reader.ts'
import type { Mutable } from './read-header.ts'

type ListBuilder = Mutable<TimedList>
type RangeBuilder = Mutable<TimeCodeRange>

interface SkelBuilder extends Mutable<SkelAnimation> {
  weights: ListBuilder | undefined
  translations: ListBuilder | undefined
  rotations: ListBuilder | undefined
  scales: ListBuilder | undefined
}

export interface DataBuilder extends Mutable<DataMessage> {
  skelAnimation: SkelBuilder | undefined
  audio: { timeCode: number; bytes: number } | undefined
  camera: RangeBuilder | undefined
}

export function emptyData(): DataBuilder {
  return { part: 'data', skelAnimation: undefined, audio: undefined, camera: undefined }
}

export function readData(reader: ProtobufReader, data: DataBuilder): void {
  const outer = reader.enter()
  while (reader.at < reader.end) {
    const tag = reader.tag()
    switch (tag) {
      case (1 << 3) | delimited:
        data.skelAnimation ??= emptySkelAnimation()
        readSkelAnimation(reader, data.skelAnimation)
        break
      case (2 << 3) | delimited:
        data.audio ??= { timeCode: 0, bytes: 0 }
        readAudio(reader, data.audio)
        break
      case (3 << 3) | delimited:
        data.camera ??= { earliest: undefined, latest: undefined }
        readCamera(reader, data.camera)
        break
      default:
        reader.skip(tag)
    }
  }
  reader.leave(outer)
}

function emptySkelAnimation(): SkelBuilder {
  return {
    earliest: undefined,
    latest: undefined,
    weights: undefined,
    translations: undefined,
    rotations: undefined,
    scales: undefined,
  }
}

function readSkelAnimation(reader: ProtobufReader, skel: SkelBuilder): void {
  const outer = reader.enter()
  while (reader.at < reader.end) {
    const tag = reader.tag()
    switch (tag) {
      case (1 << 3) | delimited:
        skel.weights = readArray(reader, skel, skel.weights, true)
        break
      case (2 << 3) | delimited:
        skel.translations = readArray(reader, skel, skel.translations, false)
        break
      case (3 << 3) | delimited:
        skel.rotations = readArray(reader, skel, skel.rotations, false)
        break
      case (4 << 3) | delimited:
        skel.scales = readArray(reader, skel, skel.scales, false)
        break
      default:
        reader.skip(tag)
    }
  }
  reader.leave(outer)
}

/** Reads an array of floats or vectors, and returns the list with it. */
function readArray(
  reader: ProtobufReader,
  range: RangeBuilder,
  list: ListBuilder | undefined,
  floats: boolean,
): ListBuilder {
  const outer = reader.enter()
  let timeCode = 0
  let values = 0
  while (reader.at < reader.end) {
    const tag = reader.tag()
    if (tag === ((1 << 3) | fixed64)) timeCode = reader.double()
    else if (tag === ((2 << 3) | delimited)) {
      if (floats) values += reader.passPackedFloats()
      else {
        reader.passVector()
        values += 1
      }
    } else {
      if (floats && tag === ((2 << 3) | fixed32)) values += 1
      reader.skip(tag)
    }
  }
  reader.leave(outer)
  widen(range, timeCode)
  return list === undefined ? firstEntry(timeCode, values) : nextEntry(list, timeCode, values)
}

function firstEntry(timeCode: number, values: number): ListBuilder {
  return {
    lastTimeCode: timeCode,
    disorder: Number.isFinite(timeCode) ? undefined : { found: timeCode, previous: undefined },
    fewestValues: values,
    mostValues: values,
  }
}

function nextEntry(list: ListBuilder, timeCode: number, values: number): ListBuilder {
  list.disorder ??= disorderAfter(list.lastTimeCode, timeCode)
  list.lastTimeCode = timeCode
  list.fewestValues = Math.min(list.fewestValues, values)
  list.mostValues = Math.max(list.mostValues, values)
  return list
}

function disorderAfter(previous: number, found: number): Disorder | undefined {
  return found > previous && Number.isFinite(found) ? undefined : { found, previous }
}

function widen(range: RangeBuilder, found: number): void {
  if (!Number.isFinite(found)) return
  // Converts -0 to 0.
  const timeCode = found + 0
  if (range.earliest === undefined || timeCode < range.earliest) range.earliest = timeCode
  if (range.latest === undefined || timeCode > range.latest) range.latest = timeCode
}

function readAudio(reader: ProtobufReader, audio: { timeCode: number; bytes: number }): void {
  const outer = reader.enter()
  while (reader.at < reader.end) {
    const tag = reader.tag()
    if (tag === ((1 << 3) | fixed64)) audio.timeCode = reader.double()
    else if (tag === ((2 << 3) | delimited)) audio.bytes = reader.passBytes()
    else reader.skip(tag)
  }
  reader.leave(outer)
}

/** Reads a camera, each entry of whose four lists has a time code and a vector or a float. */
function readCamera(reader: ProtobufReader, range: RangeBuilder): void {
  const outer = reader.enter()
  while (reader.at < reader.end) {
    const tag = reader.tag()
    switch (tag) {
      case (1 << 3) | delimited:
      case (2 << 3) | delimited:
        widen(range, readCameraTimeCode(reader, true))
        break
      case (3 << 3) | delimited:
      case (4 << 3) | delimited:
        widen(range, readCameraTimeCode(reader, false))
        break
      default:
        reader.skip(tag)
    }
  }
  reader.leave(outer)
}

function readCameraTimeCode(reader: ProtobufReader, hasVector: boolean): number {
  const outer = reader.enter()
  let timeCode = 0
  while (reader.at < reader.end) {
    const tag = reader.tag()
    if (tag === ((1 << 3) | fixed64)) timeCode = reader.double()
    else if (hasVector && tag === ((2 << 3) | delimited)) reader.passVector()
    else reader.skip(tag)
  }
  reader.leave(outer)
  return timeCode
}
