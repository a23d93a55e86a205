import { startRedis } from '../support/redis-server.ts'
import type { BenchCase, CaseResult, Extent } from './bench-case.ts'
import { startBroker } from './broker-servers.ts'
import { compareRounds } from './compare.ts'
import { minPacedRoundMs } from './fan-out-cases.ts'
import { openStreamLoad } from './load/stream-load.ts'
import { measureStreams, type StreamMeasurement } from './measure-streams.ts'
import type { MeasuredServer } from './servers.ts'

/** A producer at one broker, its consumers at another one, and Redis between them. */
export const twoBrokersCase: BenchCase = {
  name: 'two-brokers',
  title: 'through Redis, two brokers, 100 consumers × 30 messages/s',
  needs: ['redis-server'],
  run,
}

const consumers = 100
const messagesPerSecond = 30

async function run({ rounds, roundMs, warmUpMs, firstWarmUpMs }: Extent): Promise<CaseResult> {
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
      ...{ streams: 1, consumers },
    })
    await load.flatOut(firstWarmUpMs)
    const ours: StreamMeasurement[] = []
    for (let round = 0; round < rounds; round++) {
      await load.atRate(messagesPerSecond, warmUpMs)
      const measuredMs = Math.max(roundMs, minPacedRoundMs)
      ours.push(await measureStreams(servers, () => load.atRate(messagesPerSecond, measuredMs)))
    }
    await load.end()
    const goal = { atMost: 10 }
    const rows = compareRounds([{ what: 'p99', figure: 'p99Ms', unit: 'ms', of: 'ours', goal }], ours, [])
    return { rows, measurements: { ours }, notes: [] }
  } finally {
    await Promise.all(servers.map(server => server.end()))
    await redis.stop()
  }
}
