import { loadavg } from 'node:os'
import { setTimeout as pause } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { createGrpcClient, type GrpcClient } from '@tollway/grpc/client/client.ts'
import { animationServices } from '../../services/broker/servers/grpc-methods.ts'
import { encodeText } from '../../services/broker/streams/testing/simulation-under-test.ts'
import { encodeAnimationIds } from '../../services/broker/wire/testing/encode-messages.ts'
import { startRedis } from '../support/redis-server.ts'
import { waitFor } from '../support/wait-for.ts'
import { startBroker } from './broker-servers.ts'
import { cpuMicros, rssMiB } from './process-usage.ts'
import type { MeasuredServer } from './servers.ts'

/**
 * Measures the memory and CPU of two brokers and of the Redis between them, for several numbers of streams
 * with consumers that keep up. Producers are at one broker, consumers at the other one. Redis has the
 * maxmemory of the chart. Prints a row of Markdown for each number: `stream-sizing.ts [--streams 10,50,100]
 * [--seconds 30]`. Exits 1 if a message is missing.
 */
const { values } = parseArgs({
  options: {
    streams: { type: 'string', default: '10,50,100' },
    seconds: { type: 'string', default: '30' },
    'kilobytes-per-second': { type: 'string', default: '400' },
  },
})
const seconds = Number(values.seconds)
const messagesPerSecond = 30
const wanted = (Number(values['kilobytes-per-second']) * 1000) / messagesPerSecond
/** `big` repeats a whole message. */
const bytes = Math.round(wanted / encodeText('1').length) * encodeText('1').length
/** The chart's `redis.bundled.streams.maxMemory`. */
const redisMemory = ['--maxmemory', '512mb', '--maxmemory-policy', 'noeviction']

const codec = { encode: (message: Uint8Array) => message, decode: (message: Uint8Array) => message }
const path = (kind: string) => `/${animationServices.specified}/${kind}AnimationDataStream`

interface Consumed {
  messages: number
  /** Messages that are neither the header nor data: the notices of the broker, and the last status. */
  others: number
}

function consume(client: GrpcClient, requestId: string): Consumed {
  const consumed = { messages: 0, others: 0 }
  const call = client.bidi(path('Pull'), codec, {})
  void call.write(encodeAnimationIds({ streamId: '', requestId, targetObjectId: '' }))
  call.end()
  void (async () => {
    for await (const message of call.messages) {
      if (message.length === bytes) consumed.messages += 1
      else consumed.others += 1
    }
  })()
  return consumed
}

/** Sends messages evenly over time; a late tick sends all that are due. Resolves with the number of them. */
async function produce(client: GrpcClient, requestId: string, message: Uint8Array): Promise<number> {
  const call = client.bidi(path('Push'), codec, {})
  const answer = (async () => {
    for await (const _ of call.messages);
  })()
  void call.write(encodeText('header', requestId))
  const total = seconds * messagesPerSecond
  const began = performance.now()
  for (let sent = 0; sent < total; sent += 1) {
    await pause(Math.max(0, began + (sent * 1000) / messagesPerSecond - performance.now()))
    await call.write(message)
  }
  void call.write(encodeText('SUCCESS'))
  call.end()
  await answer
  return total
}

/** Samples the figure four times a second. `stop` resolves with the maximum. */
function trackMaximum(sample: () => Promise<number> | number): { stop(): Promise<number> } {
  let isOver = false
  let maximum = 0
  const done = (async () => {
    while (!isOver) {
      maximum = Math.max(maximum, await sample())
      await pause(250)
    }
  })()
  return {
    async stop() {
      isOver = true
      await done
      return maximum
    },
  }
}

async function measure(streams: number): Promise<readonly string[]> {
  const redis = await startRedis(redisMemory)
  const settings = { STREAM_LOG: 'redis', REDIS_URL: redis.url }
  const brokers = [
    await startBroker('pushed to', settings),
    await startBroker('pulled from', settings),
  ] as const
  const clients: GrpcClient[] = []
  /** Each producer and each consumer has its own connection, as separate programs have. */
  function connectTo({ port }: MeasuredServer): GrpcClient {
    const client = createGrpcClient(`127.0.0.1:${port}`)
    clients.push(client)
    return client
  }
  const usedMiB = async () =>
    Number(/used_memory:(\d+)/.exec(await redis.command('info', 'memory'))?.[1]) / 2 ** 20
  const ids = Array.from({ length: streams }, (_, index) => `sizing-${index}`)
  try {
    const consumers = ids.map(id => consume(connectTo(brokers[1]), id))
    const pids = [...brokers, redis].map(({ pid }) => pid ?? 0)
    const maxima = [...pids.map(pid => () => rssMiB(pid)), usedMiB].map(trackMaximum)
    const cpuBefore = pids.map(cpuMicros)
    const began = performance.now()
    const message = encodeText(`big:${bytes}`)
    const sent = await Promise.all(ids.map(id => produce(connectTo(brokers[0]), id, message)))
    const elapsedMicros = (performance.now() - began) * 1000
    const cores = pids.map((pid, index) => (cpuMicros(pid) - (cpuBefore[index] ?? 0)) / elapsedMicros)
    await waitFor('the last status of each stream', () => consumers.every(({ others }) => others >= 2))
    const missing = consumers.reduce((sum, { messages }, index) => sum + (sent[index] ?? 0) - messages, 0)
    const [pushed = 0, pulled = 0, redisRss = 0, used = 0] = await Promise.all(maxima.map(one => one.stop()))
    if (missing > 0) process.exitCode = 1
    return [
      ...[`${streams}`, `${Math.round(elapsedMicros / 1e6)} s`, `${missing}`],
      ...[pushed, pulled, used, redisRss].map(mebibytes => `${Math.round(mebibytes)} MiB`),
      ...cores.map(share => share.toFixed(2)),
    ]
  } finally {
    for (const client of clients) client.close()
    await Promise.all(brokers.map(broker => broker.end()))
    await redis.stop()
  }
}

const heading = [
  ...['Streams', 'Duration', 'Messages missed', 'RSS of the pushed broker', 'RSS of the pulled broker'],
  ...[
    'Redis, used',
    'RSS of Redis',
    'Cores of the pushed broker',
    'Cores of the pulled broker',
    'Cores of Redis',
  ],
]
const row = (cells: readonly string[]) => process.stdout.write(`| ${cells.join(' | ')} |\n`)
process.stdout.write(
  `${seconds} s at ${messagesPerSecond} × ${bytes} bytes/s a stream; load ${loadavg()[0]}\n\n`,
)
row(heading)
row(heading.map(() => '---'))
for (const streams of values.streams.split(',').map(Number)) row(await measure(streams))
process.exit()
