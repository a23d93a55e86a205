import type { BenchCase, CaseResult, Extent } from './bench-case.ts'
import { startBroker } from './broker-servers.ts'
import { compareRounds } from './compare.ts'
import { openStreamLoad, type StreamLoad } from './load/stream-load.ts'
import { measureStreams, type StreamMeasurement } from './measure-streams.ts'
import { median } from './percentiles.ts'
import { startRouteFeed } from './route-feed.ts'
import type { MeasuredServer } from './servers.ts'

/** Many concurrent sessions, each with a separate consumer, over the connections of a few pods. */
export const manyStreamsCase: BenchCase = {
  name: 'many-streams',
  title: '1,000 streams × 1 consumer × 30 messages/s',
  needs: [],
  run,
}

const streams = 1000
const connections = 20
const messagesPerSecond = 30
/** The buffer of a stream is then full before the measurement, so that its growth is not measured. */
const bufferSeconds = 2
const fillMs = 3000
/** Less than this is attributed to the last code that is compiled. */
const maxGrowthMiB = 5

async function run(extent: Extent): Promise<CaseResult> {
  const feed = await startRouteFeed({ bufferSeconds })
  let server: MeasuredServer | undefined
  try {
    server = await startBroker('ours', feed.settings)
    const { port } = server
    const load = await openStreamLoad({
      ...{ pushPort: port, pullPort: port, name: 'bench' },
      ...{ streams, consumers: 1, connections },
    })
    await load.atRate(messagesPerSecond, Math.max(fillMs, extent.firstWarmUpMs))
    const rounds = await soak(server, load, extent)
    await load.end()
    return {
      rows: [
        ...compareRounds(
          [{ what: 'p99', figure: 'p99Ms', unit: 'ms', of: 'ours', goal: { atMost: 20 } }],
          rounds,
          [],
        ),
        {
          what: 'growth of RSS',
          unit: 'MiB',
          figures: [growthMiB(rounds.map(({ rssMiB }) => rssMiB))],
          goal: { atMost: maxGrowthMiB },
          compared: '',
          steady: true,
        },
      ],
      measurements: { ours: rounds },
      notes: [`${Math.round(extent.soakMs / 1000)} s in ${rounds.length} rounds`],
    }
  } finally {
    await server?.end()
    await feed.stop()
  }
}

/** Rounds of at least a second, and at most sixty rounds. */
async function soak(
  server: MeasuredServer,
  load: StreamLoad,
  { soakMs }: Extent,
): Promise<readonly StreamMeasurement[]> {
  const roundMs = Math.max(1000, soakMs / 60)
  const rounds: StreamMeasurement[] = []
  for (let leftMs = soakMs; leftMs > 0; leftMs -= roundMs) {
    rounds.push(await measureStreams([server], () => load.atRate(messagesPerSecond, roundMs)))
  }
  return rounds
}

/** Returns the growth from the second fifth, since at first every process grows, to the last. */
export function growthMiB(rssMiB: readonly number[]): number {
  const fifth = Math.max(1, Math.floor(rssMiB.length / 5))
  return median(rssMiB.slice(-fifth)) - median(rssMiB.slice(fifth, 2 * fifth))
}
