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
export class Recording {
  readonly title: string
  /** The blend shapes, in the order of the weights of each frame. */
  readonly names: readonly string[]
  readonly frames: Frame[] = []
  readonly #audioHeader: AnimationDataStreamHeader['audioHeader']
  readonly #pieces: Uint8Array[] = []

  constructor({ animationIds, skelAnimationHeader, audioHeader }: AnimationDataStreamHeader) {
    const { requestId = '', streamId = '', targetObjectId = '' } = animationIds ?? {}
    this.title = [streamId, requestId, targetObjectId].join(' / ')
    this.names = skelAnimationHeader?.blendShapes ?? []
    this.#audioHeader = audioHeader
  }

  get sound(): Sound {
    const { channelCount = 1, samplesPerSecond = 16000 } = this.#audioHeader ?? {}
    return { channelCount, samplesPerSecond, samples: Buffer.concat(this.#pieces) }
  }

  add({ skelAnimation, audio }: AnimationData): void {
    for (const { timeCode, values } of skelAnimation?.blendShapeWeights ?? []) {
      this.frames.push({ timeCode, weights: values })
    }
    if (audio !== undefined) this.#pieces.push(audio.audioBuffer)
  }
}

/** Returns the content of the files of a recording by their extensions. */
export function encodeFiles(recording: Recording): Readonly<Record<'wav' | 'csv' | 'svg', string | Buffer>> {
  return { wav: formatWav(recording.sound), csv: formatCsv(recording), svg: plot(recording) }
}

function formatCsv({ names, frames }: Recording): string {
  const lines = frames.map(({ timeCode, weights }) => [timeCode, ...weights].join(','))
  return `${[['time_code', ...names].map(quoteField).join(','), ...lines].join('\n')}\n`
}

/** Quotes a CSV field as RFC 4180 requires. */
function quoteField(name: string): string {
  return /[",\r\n]/.test(name) ? `"${name.replaceAll('"', '""')}"` : name
}
