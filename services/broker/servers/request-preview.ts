import { fromBinary } from '@bufbuild/protobuf'
import {
  type AnimationData,
  AnimationDataStreamSchema,
  type AudioHeader,
} from '@tollway/proto/neutral_ace/services/animation_data/v1/animation_data'

/** A preview of the last messages of one request, decimated: at most 64 KiB of JSON. */
export interface RequestPreview {
  /** The range of time codes, after the start in the header; null without any. */
  readonly seconds: { readonly from: number; readonly to: number } | null
  /** The number of messages that were read; earlier messages are left out. */
  readonly messages: number
  /** Null without audio in PCM of 8, 16 or 32 bits. */
  readonly audio: AudioPreview | null
  /** The curves with the widest ranges of values, the widest first. */
  readonly blendShapes: readonly BlendShapeCurve[]
  /** The time codes in seconds at which every curve has a value. */
  readonly times: readonly number[]
}

export interface AudioPreview {
  readonly samplesPerSecond: number
  readonly channelCount: number
  /**
   * The least and the greatest sample, from -1 to 1, in each of equal parts of the time; null without
   * samples.
   */
  readonly envelope: readonly (readonly [least: number, most: number] | null)[]
}

export interface BlendShapeCurve {
  readonly name: string
  readonly values: readonly number[]
}

const maxBins = 400
const maxFrames = 200
const maxCurves = 16
const maxNameChars = 64

interface Frame {
  readonly timeCode: number
  readonly values: readonly number[]
}

interface Chunk {
  readonly timeCode: number
  /** Samples from -1 to 1: for each instant, the samples of all channels. */
  readonly samples: readonly number[]
}

/**
 * Previews messages that `readMessage` accepts.
 *
 * @param header the first message of the request
 * @param messages the last messages, in their order
 */
export function createPreview(header: Uint8Array, messages: readonly Uint8Array[]): RequestPreview {
  const { streamPart } = fromBinary(AnimationDataStreamSchema, header)
  const known = streamPart.case === 'animationDataStreamHeader' ? streamPart.value : undefined
  const data = messages.flatMap(decodeData)
  const frames = decimate(data.flatMap(listFrames), maxFrames)
  const chunks = data.flatMap(part => decodeChunk(part, known?.audioHeader))
  const seconds = findRange(frames, chunks, known?.audioHeader)
  return {
    seconds,
    messages: messages.length,
    audio: summarizeAudio(chunks, known?.audioHeader, seconds),
    blendShapes: selectCurves(frames, known?.skelAnimationHeader?.blendShapes ?? []),
    times: frames.map(({ timeCode }) => round(timeCode)),
  }
}

function decodeData(bytes: Uint8Array): readonly AnimationData[] {
  const { streamPart } = fromBinary(AnimationDataStreamSchema, bytes)
  return streamPart.case === 'animationData' ? [streamPart.value] : []
}

const listFrames = ({ skelAnimation }: AnimationData): readonly Frame[] =>
  (skelAnimation?.blendShapeWeights ?? []).filter(({ timeCode }) => Number.isFinite(timeCode))

function decodeChunk({ audio }: AnimationData, header: AudioHeader | undefined): readonly Chunk[] {
  if (audio === undefined || header === undefined || !Number.isFinite(audio.timeCode)) return []
  const samples = decodeSamples(audio.audioBuffer, header.bitsPerSample)
  return samples.length === 0 ? [] : [{ timeCode: audio.timeCode, samples }]
}

/**
 * Decodes little-endian PCM; 8 bits are unsigned, as in WAV. Returns no samples for other numbers of bits.
 */
function decodeSamples(bytes: Uint8Array, bits: number): readonly number[] {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const read = {
    8: (at: number) => (view.getUint8(at) - 128) / 128,
    16: (at: number) => view.getInt16(at, true) / 2 ** 15,
    32: (at: number) => view.getInt32(at, true) / 2 ** 31,
  }[bits]
  if (read === undefined) return []
  const size = bits / 8
  return Array.from({ length: Math.floor(bytes.length / size) }, (_, index) => read(index * size))
}

function measureSeconds({ samples }: Chunk, { channelCount, samplesPerSecond }: AudioHeader): number {
  return samples.length / Math.max(1, channelCount) / Math.max(1, samplesPerSecond)
}

function findRange(
  frames: readonly Frame[],
  chunks: readonly Chunk[],
  header: AudioHeader | undefined,
): RequestPreview['seconds'] {
  let from = Number.POSITIVE_INFINITY
  let to = Number.NEGATIVE_INFINITY
  const widen = (least: number, most: number) => {
    from = Math.min(from, least)
    to = Math.max(to, most)
  }
  for (const { timeCode } of frames) widen(timeCode, timeCode)
  for (const chunk of chunks)
    widen(chunk.timeCode, chunk.timeCode + (header ? measureSeconds(chunk, header) : 0))
  return Number.isFinite(from) && Number.isFinite(to - from) ? { from: round(from), to: round(to) } : null
}

function summarizeAudio(
  chunks: readonly Chunk[],
  header: AudioHeader | undefined,
  seconds: RequestPreview['seconds'],
): AudioPreview | null {
  if (header === undefined || seconds === null || chunks.length === 0) return null
  const { samplesPerSecond, channelCount } = header
  const envelope: ([number, number] | null)[] = Array.from({ length: maxBins }, () => null)
  const binsPerSecond = maxBins / Math.max(seconds.to - seconds.from, Number.MIN_VALUE)
  for (const chunk of chunks) {
    const step = measureSeconds(chunk, header) / chunk.samples.length
    for (const [index, sample] of chunk.samples.entries()) {
      const place = Math.floor((chunk.timeCode + index * step - seconds.from) * binsPerSecond)
      const bin = Math.min(maxBins - 1, Math.max(0, place))
      const [least, most] = envelope[bin] ?? [sample, sample]
      envelope[bin] = [Math.min(least, sample), Math.max(most, sample)]
    }
  }
  const shown = envelope.map(bin => bin && ([round(bin[0]), round(bin[1])] as const))
  return { samplesPerSecond, channelCount, envelope: shown }
}

function selectCurves(frames: readonly Frame[], names: readonly string[]): readonly BlendShapeCurve[] {
  const curves = names.map((name, index) => {
    const values = frames.map(frame => round(frame.values[index] ?? 0))
    return { name, values, range: Math.max(...values) - Math.min(...values) }
  })
  const moving = curves.filter(({ range }) => range > 0).sort((a, b) => b.range - a.range)
  return moving.slice(0, maxCurves).map(({ name, values }) => ({ name: name.slice(0, maxNameChars), values }))
}

/** Returns at most `most` of the items, at equal distances. */
function decimate<Item>(items: readonly Item[], most: number): readonly Item[] {
  const step = Math.max(1, items.length / most)
  return items.filter((_, index) => Math.floor(index / step) !== Math.floor((index - 1) / step))
}

/**
 * Rounds to seven digits, as more are not visible. Returns 0 for infinity and NaN, which JSON does not have.
 */
const round = (value: number) => (Number.isFinite(value) ? Number(value.toPrecision(7)) : 0)
