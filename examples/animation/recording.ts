import { Buffer } from 'node:buffer'
import type {
  AnimationData,
  AnimationDataStreamHeader,
} from '@tollway/proto/neutral_ace/services/animation_data/v1/animation_data'
import { plot } from './plot.ts'
import { formatWav, type Sound } from './wav.ts'

interface Frame {
  readonly timeCode: number
  readonly weights: readonly number[]
}

/** The received messages of one request. */
export interface Recording {
  readonly title: string
  readonly names: readonly string[]
  readonly frames: readonly Frame[]
  readonly sound: Sound
  add(data: AnimationData): void
}

export function createRecording(header: AnimationDataStreamHeader): Recording {
  const { requestId = '', streamId = '', targetObjectId = '' } = header.animationIds ?? {}
  const frames: Frame[] = []
  const pieces: Uint8Array[] = []
  return {
    title: [streamId, requestId, targetObjectId].join(' / '),
    names: header.skelAnimationHeader?.blendShapes ?? [],
    frames,
    get sound() {
      const { channelCount = 1, samplesPerSecond = 16000 } = header.audioHeader ?? {}
      return { channelCount, samplesPerSecond, samples: Buffer.concat(pieces) }
    },
    add({ skelAnimation, audio }) {
      for (const { timeCode, values } of skelAnimation?.blendShapeWeights ?? []) {
        frames.push({ timeCode, weights: values })
      }
      if (audio !== undefined) pieces.push(audio.audioBuffer)
    },
  }
}

/** The files of a recording, by what their names end with. */
export function encodeFiles(recording: Recording): Readonly<Record<'wav' | 'csv' | 'svg', string | Buffer>> {
  return { wav: formatWav(recording.sound), csv: formatCsv(recording), svg: plot(recording) }
}

function formatCsv({ names, frames }: Recording): string {
  const lines = frames.map(({ timeCode, weights }) => [timeCode, ...weights].join(','))
  return `${[['time_code', ...names].map(quoteField).join(','), ...lines].join('\n')}\n`
}

/** Quotes a field as in RFC 4180. */
function quoteField(name: string): string {
  return /[",\r\n]/.test(name) ? `"${name.replaceAll('"', '""')}"` : name
}
