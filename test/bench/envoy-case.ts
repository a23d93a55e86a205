import { runEnvoy } from '../support/envoy.ts'
import { freePorts } from '../support/free-ports.ts'
import { startRedis } from '../support/redis-server.ts'
import type { Cleanup } from '../support/tollway.ts'
import type { BenchCase, CaseResult, Extent } from './bench-case.ts'
import { generous, userQuestions, userRule } from './configurations.ts'
import { envoyConfig } from './envoy-config.ts'
import { formatNumber } from './format-number.ts'
import { inTurn } from './in-turn.ts'
import { driveAtRate } from './load/at-rate.ts'
import { driveFlatOut } from './load/flat-out.ts'
import { httpLoad } from './load/http-connection.ts'
import type { Load, LoadResult } from './load/load-connection.ts'
import { uniform, userRequest } from './load/requests.ts'
import { type LatencyFigures, latencyFigures, median } from './percentiles.ts'
import { startOurs, startYardstick } from './servers.ts'

/** The latency that the rate limit call adds to a call through Envoy. */
export const envoyCase: BenchCase = {
  name: 'envoy',
  title: 'through Envoy, 20 connections',
  needs: ['redis-server', 'envoy'],
  run,
}

const connections = 20
const keys = 10_000
const names = ['nothing asked', 'ours', 'yardstick'] as const

async function run(extent: Extent): Promise<CaseResult> {
  const ends: (() => Promise<unknown>)[] = []
  try {
    return await measureBehindEnvoy(extent, { after: end => void ends.push(end) })
  } finally {
    for (const end of ends.reverse()) await end()
  }
}

async function measureBehindEnvoy(extent: Extent, cleanup: Cleanup): Promise<CaseResult> {
  const redis = await startRedis()
  cleanup.after(() => redis.stop())
  const ours = await startOurs({ rules: userRule(generous), redisPort: redis.port })
  cleanup.after(() => ours.end())
  const yardstick = await startYardstick('grpc', redis.port, generous)
  cleanup.after(() => yardstick.end())
  const [admin = 0, app = 0, ...ports] = await freePorts(2 + names.length)
  const asked = [undefined, ours.port, yardstick.port]
  const listeners = names.map((name, place) => {
    const rateLimit = asked[place]
    return { name, port: ports[place] ?? 0, ...(rateLimit !== undefined && { rateLimit }) }
  })
  const config = JSON.stringify(envoyConfig({ admin, app, listeners }))
  await runEnvoy(cleanup, config, { adminPort: admin, concurrency: 1 })
  return measureListeners(extent, ports)
}

/** All run at the same rate, half of the rate with the yardstick, so that queues are not measured. */
async function measureListeners(extent: Extent, ports: readonly number[]): Promise<CaseResult> {
  const { rounds, roundMs, warmUpMs, firstWarmUpMs } = extent
  const bodies = userQuestions(keys).map(userRequest)
  const load = (port: number): Load => {
    const next = uniform(keys)
    const bodyOf = () => bodies[next()] ?? Buffer.alloc(0)
    return { open: httpLoad({ port, status: 200 }), connections, streams: 1, bodyOf }
  }
  let capacity = 0
  for (const port of ports) {
    const { calls, seconds } = await driveFlatOut(load(port), { durationMs: firstWarmUpMs })
    capacity = calls / seconds
  }
  const [nothing = [], ours = [], yardstick = []] = await inTurn(ports, rounds, async port => {
    await driveAtRate(load(port), capacity / 2, warmUpMs)
    return figuresOf(await driveAtRate(load(port), capacity / 2, roundMs))
  })
  const added = (round: LatencyFigures, index: number) => round.p50Ms - (nothing[index]?.p50Ms ?? Number.NaN)
  const [byOurs, byYardstick] = [ours.map(added), yardstick.map(added)]
  const compared = `${formatNumber(median(byOurs))} / ${formatNumber(median(byYardstick))} ms`
  const figures = byOurs.map((ms, round) => ms / (byYardstick[round] ?? Number.NaN))
  return {
    rows: [{ what: 'p50 added', unit: '', figures, goal: { atMost: 1 / 2 }, compared }],
    measurements: { ours, yardstick, 'nothing asked': nothing },
    notes: [`at ${Math.round(capacity / 2)} calls/s: half of the full rate with the yardstick`],
  }
}

function figuresOf({ calls, failed, seconds, latenciesMs }: LoadResult) {
  if (failed > 0) throw new Error(`${failed} of ${calls} calls through Envoy were rejected`)
  return { decisionsPerSecond: calls / seconds, ...latencyFigures(latenciesMs) }
}
