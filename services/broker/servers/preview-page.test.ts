import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { create, type MessageInitShape, toBinary } from '@bufbuild/protobuf'
import { createLog } from '@tollway/chassis/log/log.ts'
import { readSettings } from '@tollway/chassis/settings.ts'
import { AnimationDataStreamSchema } from '@tollway/proto/neutral_ace/services/animation_data/v1/animation_data'
import { startRedis } from '../../../test/support/redis-server.ts'
import { requireProgram } from '../../../test/support/require-server.ts'
import { waitFor } from '../../../test/support/wait-for.ts'
import { startService } from '../service.ts'
import { settings } from '../settings.ts'
import type { RequestPreview } from './request-preview.ts'
import { createPreview } from './request-preview.ts'
import { openAnimationClient } from './testing/animation-client.ts'

const quick = {
  ...{ GRPC_HOST: '127.0.0.1', GRPC_PORT: '0', DEBUG_PORT: '0', DRAIN_DELAY: '0', DRAIN_TIMEOUT: '50ms' },
}
const samplesPerSecond = 16_000

async function start(t: TestContext, env: Readonly<Record<string, string>> = {}) {
  const read = readSettings(settings, { ...quick, ...env }, () => '')
  assert.ok('value' in read)
  const service = await startService(read.value, createLog({ level: 'error', format: 'json', write() {} }))
  t.after(() => service.stop())
  assert.ok('port' in service.grpc)
  const client = openAnimationClient(t, `127.0.0.1:${service.grpc.port}`)
  const get = async (path: string) => {
    const response = await fetch(`http://127.0.0.1:${service.debugPort}${path}`)
    return { status: response.status, text: await response.text() }
  }
  return { client, get }
}

type Served = Awaited<ReturnType<typeof start>>

const encode = (init: MessageInitShape<typeof AnimationDataStreamSchema>) =>
  toBinary(AnimationDataStreamSchema, create(AnimationDataStreamSchema, init))

function header(blendShapes: readonly string[], bitsPerSample = 16): Uint8Array {
  const value = {
    animationIds: { requestId: 'r', streamId: 's', targetObjectId: 'o' },
    audioHeader: { channelCount: 1, samplesPerSecond, bitsPerSample },
    skelAnimationHeader: { blendShapes: [...blendShapes] },
  }
  return encode({ streamPart: { case: 'animationDataStreamHeader', value } })
}

/** Encodes a frame of a thirtieth of a second with these blend shapes and a sawtooth of audio. */
function frame(index: number, values: readonly number[]): Uint8Array {
  const samples = Int16Array.from({ length: 533 }, (_, sample) => (sample % 2 === 0 ? 16_384 : -8_192))
  const timeCode = index / 30
  const value = {
    skelAnimation: { blendShapeWeights: [{ timeCode, values: [...values] }] },
    audio: { timeCode, audioBuffer: new Uint8Array(samples.buffer) },
  }
  return encode({ streamPart: { case: 'animationData', value } })
}

async function readKey({ get }: Served): Promise<string> {
  const streams = async () =>
    (JSON.parse((await get('/streams')).text) as { streams: { key: string }[] }).streams
  await waitFor('the request', async () => (await streams()).length === 1)
  return (await streams())[0]?.key ?? ''
}

async function previewFrom({ get }: Served, key: string): Promise<RequestPreview> {
  const { status, text } = await get(`/streams/preview?key=${encodeURIComponent(key)}`)
  assert.equal(status, 200, text)
  assert.ok(text.length <= 64 * 1024, `the preview has ${text.length} bytes`)
  return (JSON.parse(text) as { preview: RequestPreview }).preview
}

async function pushFrames(served: Served, frames: number): Promise<string> {
  const names = Array.from({ length: 52 }, (_, index) => `shape${index}`)
  const push = served.client.push()
  push.write(header(names))
  for (let index = 0; index < frames; index++) {
    push.write(
      frame(
        index,
        names.map((_, shape) => Math.sin(index) / (shape + 1)),
      ),
    )
  }
  return await readKey(served)
}

test('a preview has the range of the audio and the curves that move most', async t => {
  const served = await start(t)
  const key = await pushFrames(served, 600)
  await waitFor('all frames', async () => (await previewFrom(served, key)).messages >= 300)
  const { audio, blendShapes, times, seconds } = await previewFrom(served, key)
  assert.ok(seconds !== null && seconds.to - seconds.from > 5)
  assert.equal(audio?.samplesPerSecond, samplesPerSecond)
  assert.deepEqual(audio.envelope[200], [-0.25, 0.5])
  assert.deepEqual(
    blendShapes.map(({ name }) => name),
    Array.from({ length: 16 }, (_, index) => `shape${index}`),
  )
  assert.ok(times.length <= 200 && blendShapes.every(({ values }) => values.length === times.length))
  assert.deepEqual(JSON.parse((await served.get('/streams')).text).streams[0].consumers, [])
})

test('a preview needs the key of a kept request', async t => {
  const { get } = await start(t)
  assert.equal((await get('/streams/preview')).status, 400)
  assert.equal((await get('/streams/preview?key=canary')).status, 404)
})

test('a broker that shares the log in Redis has the preview of another one', async t => {
  if (requireProgram(t, 'redis-server') === false) return
  const redis = await startRedis()
  t.after(() => redis.stop())
  const env = { STREAM_LOG: 'redis', REDIS_URL: redis.url }
  const [first, second] = [await start(t, env), await start(t, env)]
  const key = await pushFrames(first, 60)
  assert.equal(await readKey(second), key)
  await waitFor('the messages', async () => (await previewFrom(second, key)).messages === 60)
})

test('a request without messages has an empty preview', () => {
  const { seconds, audio, blendShapes } = createPreview(header(['a']), [])
  assert.deepEqual([seconds, audio, blendShapes], [null, null, []])
})

test('a preview leaves out values without meaning, and is bounded with any names', () => {
  const odd = encode({
    streamPart: {
      case: 'animationData',
      value: {
        skelAnimation: { blendShapeWeights: [{ timeCode: Number.NaN, values: [1] }] },
        audio: { timeCode: Number.POSITIVE_INFINITY, audioBuffer: Uint8Array.of(1, 2) },
      },
    },
  })
  const { seconds, audio } = createPreview(header(['a']), [odd, frame(0, [Number.NaN]), frame(1, [])])
  assert.ok(seconds !== null && audio !== null)
  assert.equal(createPreview(header(['a'], 24), [frame(0, [1])]).audio, null)
  const long = Array.from({ length: 5_000 }, (_, index) => `${index}`.padEnd(1_000, '\u{1F600}'))
  const frames = Array.from({ length: 100 }, (_, index) =>
    frame(
      index,
      long.map((_, shape) => ((index * shape) % 97) / 7e6),
    ),
  )
  assert.ok(Buffer.byteLength(JSON.stringify(createPreview(header(long), frames))) <= 64 * 1024)
})
