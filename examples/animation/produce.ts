import { randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { setTimeout } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import {
  type Status,
  Status_Code,
} from '@tollway/proto/neutral_ace/services/animation_data/v1/animation_data'
import { createAnimationClient, type StreamPart } from './animation-client.ts'
import { blendShapes, computeWeights, makeSpeech } from './speech.ts'
import { bytesPerSample, parseWav, type Sound } from './wav.ts'

/** Sends a WAV file, or a generated voice, with matching blend shapes. README.md has the options. */

const framesPerSecond = 30

const { values: options } = parseArgs({
  options: {
    target: { type: 'string', default: '127.0.0.1:8082' },
    token: { type: 'string' },
    stream: { type: 'string', default: 'demo' },
    // A new id in each run: the broker rejects an id for a minute after an interruption.
    request: { type: 'string', default: `utterance-${randomUUID().slice(0, 8)}` },
    object: { type: 'string', default: 'claire' },
    wav: { type: 'string' },
    seconds: { type: 'string', default: '5' },
    // A factor of real time; 0 sends without waiting.
    speed: { type: 'string', default: '1' },
  },
})

const sound =
  options.wav === undefined ? makeSpeech(Number(options.seconds)) : parseWav(readFileSync(options.wav))
const speed = Number(options.speed)

function toHeader({ channelCount, samplesPerSecond }: Sound, startMs: number): StreamPart {
  return {
    case: 'animationDataStreamHeader',
    value: {
      animationIds: { requestId: options.request, streamId: options.stream, targetObjectId: options.object },
      sourceServiceId: 'example-producer',
      audioHeader: { channelCount, samplesPerSecond, bitsPerSample: 8 * bytesPerSample },
      skelAnimationHeader: { blendShapes: [...blendShapes] },
      startTimeCodeSinceEpoch: startMs / 1000,
    },
  }
}

function toData(piece: Sound['samples'], timeCode: number): StreamPart {
  return {
    case: 'animationData',
    value: {
      skelAnimation: { blendShapeWeights: [{ timeCode, values: computeWeights(sound, piece, timeCode) }] },
      audio: { timeCode, audioBuffer: piece },
    },
  }
}

/** Yields a header, each frame at its time, and a status. */
async function* produceParts({ samples, channelCount, samplesPerSecond }: Sound): AsyncGenerator<StreamPart> {
  const startMs = Date.now()
  yield toHeader(sound, startMs)
  const frameBytes = channelCount * bytesPerSample
  const frameStart = (frame: number) => Math.round((frame * samplesPerSecond) / framesPerSecond) * frameBytes
  for (let frame = 0; frameStart(frame) < samples.length; frame += 1) {
    const timeCode = frame / framesPerSecond
    if (speed > 0) await setTimeout(Math.max(0, startMs + (timeCode * 1000) / speed - Date.now()))
    yield toData(samples.subarray(frameStart(frame), frameStart(frame + 1)), timeCode)
  }
  yield { case: 'status', value: { code: Status_Code.SUCCESS, message: 'all is said' } }
}

const client = createAnimationClient(options.target, options.token)
try {
  console.log(`playing ${options.request} of ${options.stream} to ${options.target}`)
  const status: Status = await client.push(produceParts(sound))
  console.log(`the broker answered ${Status_Code[status.code]} "${status.message}"`)
  if (status.code === Status_Code.ERROR) process.exitCode = 1
} catch (error) {
  console.error(`${error}`)
  process.exitCode = 1
} finally {
  client.close()
}
