import { type RedisServer, startRedis } from '../support/redis-server.ts'
import type { BenchCase, CaseResult, Extent } from './bench-case.ts'
import { type Comparison, compareRounds, roundRatios } from './compare.ts'
import { inTurn } from './in-turn.ts'
import { driveAtRate } from './load/at-rate.ts'
import { driveFlatOut } from './load/flat-out.ts'
import { type Measurement, measure } from './measure.ts'
import { createPairLoads, type LoadShape, type PairLoads } from './pair-load.ts'
import { median } from './percentiles.ts'
import { type MeasuredServer, startBareAnswers, startOurs, startYardstick } from './servers.ts'

/** Our service against the yardstick, or another form of itself, under one load. */
export interface PairCase extends LoadShape {
  readonly name: string
  readonly title: string
  /** The configuration, as YAML. */
  readonly rules: string
  /** The yardstick's only limit. */
  readonly limit: number
  readonly settings?: Readonly<Record<string, string>>
  /** The other side is our service with these settings, not the yardstick. */
  readonly againstOurs?: { readonly name: string; readonly settings: Readonly<Record<string, string>> }
  /** At half of what the other side reaches flat out with the same connections, in this run. */
  readonly atHalfCapacity?: boolean
  /** Measures what answering alone costs, too. */
  readonly withFloor?: boolean
  readonly comparisons: readonly Comparison[]
}

export function pairCase(pair: PairCase): BenchCase {
  const { name, title } = pair
  return { name, title, needs: ['redis-server'], run: extent => run(pair, extent) }
}

async function run(pair: PairCase, extent: Extent): Promise<CaseResult> {
  const redis = await startRedis()
  const servers: MeasuredServer[] = []
  try {
    const ours = await startOurs({ ...pair, name: 'ours', redisPort: redis.port })
    servers.push(ours)
    const other = await startOther(pair, redis)
    servers.push(other)
    const floor = pair.withFloor ? await startBareAnswers() : undefined
    if (floor !== undefined) servers.push(floor)
    return await measurePair(pair, extent, redis, { ours, other, floor })
  } finally {
    await Promise.all(servers.map(server => server.end()))
    await redis.stop()
  }
}

function startOther({ protocol, rules, limit, againstOurs }: PairCase, redis: RedisServer) {
  if (againstOurs !== undefined) return startOurs({ rules, redisPort: redis.port, ...againstOurs })
  return startYardstick(protocol === 'json' ? 'http' : 'grpc', redis.port, limit)
}

interface Contestants {
  readonly ours: MeasuredServer
  readonly other: MeasuredServer
  readonly floor: MeasuredServer | undefined
}

async function measurePair(
  pair: PairCase,
  extent: Extent,
  redis: RedisServer,
  { ours, other, floor }: Contestants,
): Promise<CaseResult> {
  const { rounds, roundMs, warmUpMs, firstWarmUpMs } = extent
  const loads = createPairLoads(pair)
  const all = floor === undefined ? [ours, other] : [ours, other, floor]
  for (const server of all) {
    // Each counter is known then, and a limit of 1 is exceeded.
    const passes = pair.over ? 2 : 1
    await driveFlatOut(loads.inOrder(server), { calls: passes * pair.questions.length })
    await driveFlatOut(loads.uniform(server), { durationMs: firstWarmUpMs })
  }
  const rate = pair.atHalfCapacity ? (await capacityOf(loads, other, roundMs)) / 2 : undefined
  const drive = (server: MeasuredServer, durationMs: number) => {
    const load = loads.uniform(server)
    return rate === undefined ? driveFlatOut(load, { durationMs }) : driveAtRate(load, rate, durationMs)
  }
  const measurements = await inTurn<MeasuredServer, Measurement>(all, rounds, async server => {
    await drive(server, warmUpMs)
    return measure(server, redis, () => drive(server, roundMs))
  })
  const [mine = [], theirs = [], bare = []] = measurements
  return {
    rows: compareRounds(pair.comparisons, mine, theirs),
    measurements: Object.fromEntries(all.map(({ name }, place) => [name, measurements[place] ?? []])),
    notes: [
      rate === undefined ? loadNote(mine) : rateNote(rate, other),
      ...(bare.length > 0 ? [floorNote(bare, theirs, other)] : []),
    ],
  }
}

function floorNote(
  bare: readonly Measurement[],
  theirs: readonly Measurement[],
  { name }: MeasuredServer,
): string {
  const cpu = `${median(roundRatios('cpuMicros', bare, theirs)).toFixed(2)} of the CPU of ${name}`
  const rate = `${median(roundRatios('decisionsPerSecond', bare, theirs)).toFixed(1)} times its rate`
  return `to read and to answer, and nothing else, takes ${cpu}, at ${rate}`
}

async function capacityOf(loads: PairLoads, server: MeasuredServer, durationMs: number): Promise<number> {
  const { calls, seconds } = await driveFlatOut(loads.uniform(server), { durationMs })
  return calls / seconds
}

function rateNote(rate: number, { name }: MeasuredServer): string {
  return `at ${Math.round(rate)} calls/s: half of what ${name} reached flat out with the same connections`
}

function loadNote(mine: readonly Measurement[]): string {
  const share = median(mine.map(round => round.loadCpuMicros / round.cpuMicros))
  return `making the load cost ${share.toFixed(2)} of the CPU that our server took`
}
