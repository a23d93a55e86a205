import { create, type MessageInitShape, toBinary } from '@bufbuild/protobuf'
import { AnimationDataStreamSchema } from '@tollway/proto/neutral_ace/services/animation_data/v1/animation_data'

/** Messages of a played avatar: noise in syllables, and blend shapes that follow it. */

const samplesPerSecond = 16_000
const framesPerSecond = 10
const samplesPerFrame = samplesPerSecond / framesPerSecond
const syllablesPerSecond = 3.1

/** The pause between two messages of a producer that keeps its pace. */
export const frameMs = 1_000 / framesPerSecond

/** Weights by the loudness from 0 to 1 and the time in seconds. */
const shapes: Readonly<Record<string, (loudness: number, seconds: number) => number>> = {
  jawOpen: loudness => 0.8 * loudness,
  mouthFunnel: (loudness, seconds) => 0.5 * loudness * wave(seconds * 1.7),
  mouthPucker: (loudness, seconds) => 0.4 * loudness * wave(seconds * 0.9),
  mouthSmileLeft: (_, seconds) => 0.15 + 0.2 * wave(seconds * 0.3),
  mouthSmileRight: (_, seconds) => 0.15 + 0.18 * wave(seconds * 0.3),
  eyeBlinkLeft: (_, seconds) => (seconds % 4 < 0.2 ? 1 : 0),
  eyeBlinkRight: (_, seconds) => (seconds % 4 < 0.2 ? 1 : 0),
  browInnerUp: (_, seconds) => 0.3 * wave(seconds * 0.2),
}

/** A number from 0 to 1. */
const wave = (turns: number) => 0.5 - 0.5 * Math.cos(2 * Math.PI * turns)

const loudnessAt = (seconds: number) => wave(seconds * syllablesPerSecond) * wave(seconds * 0.37)

const encode = (init: MessageInitShape<typeof AnimationDataStreamSchema>) =>
  toBinary(AnimationDataStreamSchema, create(AnimationDataStreamSchema, init))

export function encodeUtteranceHeader(requestId: string): Uint8Array {
  const value = {
    animationIds: { requestId, streamId: 's', targetObjectId: 'avatar' },
    audioHeader: { channelCount: 1, samplesPerSecond, bitsPerSample: 16 },
    skelAnimationHeader: { blendShapes: Object.keys(shapes) },
  }
  return encode({ streamPart: { case: 'animationDataStreamHeader', value } })
}

/** Returns a tenth of a second of sound, with the weights at its begin. */
export function encodeUtteranceFrame(index: number): Uint8Array {
  const timeCode = index / framesPerSecond
  const samples = Int16Array.from({ length: samplesPerFrame }, (_, sample) => {
    const noise = ((sample * 7_919 + index * 104_729) % 997) / 498.5 - 1
    return noise * loudnessAt(timeCode + sample / samplesPerSecond) * 0.7 * 32_767
  })
  const values = Object.values(shapes).map(shape => shape(loudnessAt(timeCode), timeCode))
  const value = {
    skelAnimation: { blendShapeWeights: [{ timeCode, values }] },
    audio: { timeCode, audioBuffer: new Uint8Array(samples.buffer) },
  }
  return encode({ streamPart: { case: 'animationData', value } })
}
