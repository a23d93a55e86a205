import { create, type MessageInitShape, toBinary } from '@bufbuild/protobuf'
import {
  AnimationDataStreamSchema,
  AnimationIdsSchema,
} from '@tollway/proto/neutral_ace/services/animation_data/v1/animation_data'
import { headroomBytes } from './stream-connection.ts'

const service = '/neutral_ace.services.animation_data.v1.AnimationDataService'
export const pushPath = `${service}/PushAnimationDataStream`
export const pullPath = `${service}/PullAnimationDataStream`

const framesPerSecond = 30
const samplesPerSecond = 16_000
const bytesPerSample = 2
const blendShapes = Array.from({ length: 52 }, (_, index) => `shape${index}`)

/** Adds the headroom of `LoadStream.send` before a message. */
function withHeadroom(bytes: Uint8Array): Buffer {
  return Buffer.concat([Buffer.alloc(headroomBytes), bytes])
}

function encode(init: MessageInitShape<typeof AnimationDataStreamSchema>): Buffer {
  return withHeadroom(toBinary(AnimationDataStreamSchema, create(AnimationDataStreamSchema, init)))
}

function idsOf(stream: string) {
  return { requestId: `request-${stream}`, streamId: stream, targetObjectId: 'avatar' }
}

/** Returns the only request of a pull of this stream. */
export function pullRequest(stream: string): Buffer {
  return withHeadroom(toBinary(AnimationIdsSchema, create(AnimationIdsSchema, idsOf(stream))))
}

export function headerMessage(stream: string): Buffer {
  const audioHeader = { channelCount: 1, samplesPerSecond, bitsPerSample: 8 * bytesPerSample }
  const value = {
    animationIds: idsOf(stream),
    sourceServiceId: 'bench',
    audioHeader,
    skelAnimationHeader: { blendShapes },
    startTimeCodeSinceEpoch: 1,
  }
  return encode({ streamPart: { case: 'animationDataStreamHeader', value } })
}

export function lastStatus(): Buffer {
  return encode({ streamPart: { case: 'status', value: { message: 'the end' } } })
}

/** Values that do not occur elsewhere in the message, so that their positions are found. */
const someTimeCode = 12_345.678
const someStamp = Buffer.alloc(16, 0xa5)

const audioBytes = bytesPerSample * Math.floor(samplesPerSecond / framesPerSecond)
const restOfAudio = Buffer.alloc(audioBytes - someStamp.length, 0x11)

/** One frame of an animation: 52 weights, and the audio of a thirtieth second; 1.3 KB. */
const template = encode({
  streamPart: {
    case: 'animationData',
    value: {
      skelAnimation: {
        blendShapeWeights: [{ timeCode: someTimeCode, values: blendShapes.map((_, place) => place / 100) }],
      },
      audio: { timeCode: someTimeCode, audioBuffer: Buffer.concat([someStamp, restOfAudio]) },
    },
  },
})
const encodedTimeCode = Buffer.alloc(8)
encodedTimeCode.writeDoubleLE(someTimeCode)
const firstTimeCodeAt = template.indexOf(encodedTimeCode)
const secondTimeCodeAt = template.indexOf(encodedTimeCode, firstTimeCodeAt + 8)
/** The audio begins with the number of the message and its due time. */
const numberAt = template.indexOf(someStamp)
const sentAt = numberAt + 8

/** The size without the headroom. */
export const dataBytes = template.length - headroomBytes

/** Returns the data with this number, from 0; valid until the next call. The consumer reads `sentMs`. */
export function dataMessage(number: number, sentMs: number): Buffer {
  const timeCode = (number + 1) / framesPerSecond
  template.writeDoubleLE(timeCode, firstTimeCodeAt)
  template.writeDoubleLE(timeCode, secondTimeCodeAt)
  template.writeDoubleLE(number, numberAt)
  template.writeDoubleLE(sentMs, sentAt)
  return template
}

/** Returns whether a message is one of `dataMessage`. Others are headers and statuses. */
export function isData(buffer: Buffer, start: number, end: number): boolean {
  return end - start === dataBytes && buffer[start] === template[headroomBytes]
}

export function numberOf(buffer: Buffer, start: number): number {
  return buffer.readDoubleLE(start + numberAt - headroomBytes)
}

export function sentMsOf(buffer: Buffer, start: number): number {
  return buffer.readDoubleLE(start + sentAt - headroomBytes)
}

/** The tag of the status in a message that has one. */
const statusTag = lastStatus()[headroomBytes]

export function isStatus(buffer: Buffer, start: number): boolean {
  return buffer[start] === statusTag
}
