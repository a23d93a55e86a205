import { startRedis } from '../support/redis-server.ts'
import type { BenchCase, CaseResult, Extent } from './bench-case.ts'
import { startBroker } from './broker-servers.ts'
import { type Comparison, compareRounds } from './compare.ts'
import { minPacedRoundMs } from './fan-out-cases.ts'
import { openStreamLoad } from './load/stream-load.ts'
import { measureStreams, type StreamMeasurement } from './measure-streams.ts'
import type { MeasuredServer } from './servers.ts'

/** Producers at one broker, their consumers at another one, and Redis between them. */
interface TwoBrokers {
  readonly name: string
  readonly title: string
  readonly streams: number
  /** The number of consumers of each stream. */
  readonly consumers: number
  /** The connections that the streams share; without it each has a separate one. */
  readonly connections?: number
  readonly comparisons: readonly Comparison[]
}

const messagesPerSecond = 30
const p99: Comparison = { what: 'p99', figure: 'p99Ms', unit: 'ms', of: 'ours' }

const shapes: readonly TwoBrokers[] = [
  {
    name: 'two-brokers',
    title: 'through Redis, two brokers, 100 consumers × 30 messages/s',
    streams: 1,
    consumers: 100,
    comparisons: [{ ...p99, goal: { atMost: 10 } }],
  },
  {
    name: 'two-brokers-many',
    title: 'through Redis, two brokers, 200 streams × 1 consumer × 30 messages/s',
    streams: 200,
    consumers: 1,
    connections: 20,
    comparisons: [
      { ...p99, goal: { atMost: 20 } },
      { what: 'CPU a delivery', figure: 'cpuMicros', unit: 'µs', of: 'ours' },
    ],
  },
]

export const twoBrokersCases: readonly BenchCase[] = shapes.map(shape => ({
  name: shape.name,
  title: shape.title,
  needs: ['redis-server'],
  run: extent => run(shape, extent),
}))

async function run(shape: TwoBrokers, extent: Extent): Promise<CaseResult> {
  const { rounds, roundMs, warmUpMs, firstWarmUpMs } = extent
  const redis = await startRedis()
  const servers: MeasuredServer[] = []
  try {
    const settings = { STREAM_LOG: 'redis', REDIS_URL: redis.url }
    const pushed = await startBroker('pushed to', settings)
    servers.push(pushed)
    const pulled = await startBroker('pulled from', settings)
    servers.push(pulled)
    const load = await openStreamLoad({
      ...{ pushPort: pushed.port, pullPort: pulled.port, name: 'bench' },
      ...{ streams: shape.streams, consumers: shape.consumers },
      ...(shape.connections === undefined ? {} : { connections: shape.connections }),
    })
    await load.flatOut(firstWarmUpMs)
    const ours: StreamMeasurement[] = []
    for (let round = 0; round < rounds; round++) {
      await load.atRate(messagesPerSecond, warmUpMs)
      const measuredMs = Math.max(roundMs, minPacedRoundMs)
      ours.push(await measureStreams(servers, () => load.atRate(messagesPerSecond, measuredMs)))
    }
    await load.end()
    return { rows: compareRounds(shape.comparisons, ours, []), measurements: { ours }, notes: [] }
  } finally {
    await Promise.all(servers.map(server => server.end()))
    await redis.stop()
  }
}
