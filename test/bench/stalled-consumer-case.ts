import type { BenchCase, CaseResult, Extent } from './bench-case.ts'
import { startBroker } from './broker-servers.ts'
import { compareRounds, latencyRatio } from './compare.ts'
import { minPacedRoundMs } from './fan-out-cases.ts'
import { inTurn } from './in-turn.ts'
import { openStreamLoad } from './load/stream-load.ts'
import { measureStreams } from './measure-streams.ts'
import { rssMiB } from './process-usage.ts'
import { startRouteFeed } from './route-feed.ts'
import type { MeasuredServer } from './servers.ts'

/** The effect of a hanging consumer on the others of its stream, and on the broker's memory. */
export const stalledConsumerCase: BenchCase = {
  name: 'stalled-consumer',
  title: '1 stalled of 100 consumers × 30 messages/s, the oldest messages are dropped',
  needs: [],
  run,
}

const consumers = 99
const messagesPerSecond = 30
const bufferBytes = 1024 * 1024
/** The buffer, and the same amount for other growth. */
const maxGrowthMiB = 8
/** The messages before the stall, and again before the measurement, so that the oldest ones are dropped. */
const fill = { messagesPerSecond: 500, durationMs: 2000 }

async function run(extent: Extent): Promise<CaseResult> {
  const feed = await startRouteFeed({ slowConsumers: 'drop-oldest', bufferBytes })
  let server: MeasuredServer | undefined
  try {
    server = await startBroker('ours', feed.settings)
    return await measureBoth(server, extent)
  } finally {
    await server?.end()
    await feed.stop()
  }
}

async function measureBoth(server: MeasuredServer, extent: Extent): Promise<CaseResult> {
  const { rounds, roundMs, warmUpMs } = extent
  const { port } = server
  const open = (name: string) =>
    openStreamLoad({ pushPort: port, pullPort: port, name, streams: 1, consumers })
  const loads = { withStall: await open('one-stalls'), withoutStall: await open('all-read') }
  for (const load of Object.values(loads)) await load.atRate(fill.messagesPerSecond, fill.durationMs)
  const rssBefore = rssMiB(server.pid)
  await loads.withStall.stall()
  for (const load of Object.values(loads)) await load.atRate(fill.messagesPerSecond, fill.durationMs)
  const measuredMs = Math.max(roundMs, minPacedRoundMs)
  const [stalled = [], free = []] = await inTurn(Object.values(loads), rounds, async load => {
    await load.atRate(messagesPerSecond, warmUpMs)
    return measureStreams([server], () => load.atRate(messagesPerSecond, measuredMs))
  })
  for (const load of Object.values(loads)) await load.end()
  return {
    rows: [
      ...compareRounds([latencyRatio('p99Ms', 1.2)], stalled, free),
      {
        what: 'growth of RSS since it stalls',
        unit: 'MiB',
        figures: stalled.map(round => round.rssMiB - rssBefore),
        goal: { atMost: maxGrowthMiB },
        compared: '',
        steady: true,
      },
    ],
    measurements: { 'one stalls': stalled, 'all read': free },
    notes: [],
  }
}
