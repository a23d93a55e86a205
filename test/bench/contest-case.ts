import { type RedisServer, startRedis } from '../support/redis-server.ts'
import type { BenchCase, CaseResult, Extent, GoalRow } from './bench-case.ts'
import { type Comparison, compareRounds, roundRatios } from './compare.ts'
import { bareDecisions, type Contestant, reference, startBareNode, yardstick } from './contestants.ts'
import { createDecisionLoads, type DecisionLoads, type LoadShape } from './decision-load.ts'
import { formatNumber } from './format-number.ts'
import { inTurn } from './in-turn.ts'
import { driveAtRate, driveSchedule } from './load/at-rate.ts'
import { driveFlatOut } from './load/flat-out.ts'
import { randomSchedule } from './load/schedule.ts'
import { type Measurement, measure } from './measure.ts'
import { median } from './percentiles.ts'
import { rssMiB } from './process-usage.ts'
import { type MeasuredServer, startOurs } from './servers.ts'

/** The service and others under one load. */
export interface ContestCase extends LoadShape {
  readonly name: string
  readonly title: string
  /** The configuration, as YAML. */
  readonly rules: string
  /** The only limit of a contestant without rules. */
  readonly limit: number
  readonly settings?: Readonly<Record<string, string>>
  /** Defaults to the yardstick. */
  readonly others?: readonly Contestant[]
  /** Defaults to the full rate. */
  readonly pace?: Pace
  readonly comparisons: readonly Comparison[]
  /** A remark about every run. */
  readonly note?: string
  /** The same as in `BenchCase`. */
  readonly long?: boolean
}

export type Pace =
  /** Even, at half of the full rate of the first other contestant with the same connections. */
  | 'half capacity'
  /** Poisson arrivals at this rate over all connections. */
  | { readonly randomPerSecond: number }

export function contestCase(contest: ContestCase): BenchCase {
  const { name, title, long = false } = contest
  return { name, title, long, needs: ['redis-server'], run: extent => run(contest, extent) }
}

async function run(contest: ContestCase, extent: Extent): Promise<CaseResult> {
  const { others = [yardstick], rules, settings = {} } = contest
  const redis = await startRedis()
  const servers: MeasuredServer[] = []
  const bareNode = await startBareNode()
  try {
    servers.push(await startOurs({ rules, settings, redisPort: redis.port }))
    const present = others.filter(({ missing }) => missing === undefined || missing() === false)
    for (const other of present) servers.push(await other.start({ ...contest, redisPort: redis.port }))
    return await measureContest(contest, extent, redis, servers, bareNode)
  } finally {
    await Promise.all([bareNode, ...servers].map(server => server.end()))
    await redis.stop()
  }
}

async function measureContest(
  contest: ContestCase,
  extent: Extent,
  redis: RedisServer,
  servers: readonly MeasuredServer[],
  bareNode: MeasuredServer,
): Promise<CaseResult> {
  const { rounds, roundMs, warmUpMs } = extent
  const loads = createDecisionLoads(contest)
  for (const server of servers) await warmUp(contest, loads, server, extent)
  const drive = await driverOf(contest, loads, servers[1], roundMs)
  const measurements = await inTurn<MeasuredServer, Measurement>(servers, rounds, async (server, round) => {
    await drive(server, warmUpMs, 0)
    const measurement = await measure(server, [redis], () => drive(server, roundMs, 1 + round))
    return { ...measurement, rssBeyondNodeMiB: measurement.rssMiB - rssMiB(bareNode.pid) }
  })
  const byName = Object.fromEntries(servers.map(({ name }, place) => [name, measurements[place] ?? []]))
  return {
    rows: contest.comparisons.flatMap(comparison => compareWith(comparison, byName)),
    measurements: byName,
    notes: [
      ...(contest.note === undefined ? [] : [contest.note]),
      loadNote(byName),
      ...floorNotes(byName),
      ...missingNotes(contest),
    ],
  }
}

/** Runs until every counter exists, each limit of 1 is exceeded, and the code is compiled. */
async function warmUp(
  { over, questions }: ContestCase,
  loads: DecisionLoads,
  server: MeasuredServer,
  { firstWarmUpMs }: Extent,
): Promise<void> {
  const passes = over ? 2 : 1
  await driveFlatOut(loads.inOrder(server), { calls: passes * questions.length })
  await driveFlatOut(loads.uniform(server), { durationMs: firstWarmUpMs })
}

type Drive = (server: MeasuredServer, durationMs: number, round: number) => ReturnType<typeof driveFlatOut>

/** All contestants get the same schedules, and each round gets a new one. */
async function driverOf(
  { pace, connections }: ContestCase,
  loads: DecisionLoads,
  other: MeasuredServer | undefined,
  roundMs: number,
): Promise<Drive> {
  if (pace === undefined) return (server, durationMs) => driveFlatOut(loads.uniform(server), { durationMs })
  if (pace === 'half capacity') {
    if (other === undefined) throw new Error('there is no contestant whose capacity could be halved')
    const { calls, seconds } = await driveFlatOut(loads.uniform(other), { durationMs: roundMs })
    return (server, durationMs) => driveAtRate(loads.uniform(server), calls / seconds / 2, durationMs)
  }
  return (server, durationMs, round) =>
    driveSchedule(
      loads.uniform(server),
      randomSchedule(pace.randomPerSecond, durationMs, connections, 1 + round),
    )
}

/** Programs that only read and answer, and the contestants that they are compared with. */
const floors = [{ floor: bareDecisions, other: reference }]

type Rounds = Readonly<Record<string, readonly Measurement[]>>

/** Skips a comparison with a contestant that did not run. */
function compareWith(comparison: Comparison, byName: Rounds): readonly GoalRow[] {
  const { what, of, against } = comparison
  const { ours = [], ...others } = byName
  const other = against === undefined ? Object.values(others)[0] : others[against]
  if (of === 'ratio' && other === undefined) return []
  const named = against === undefined ? comparison : { ...comparison, what: `${what}, to the ${against}'s` }
  return compareRounds([named], ours, other ?? [])
}

function loadNote({ ours = [], ...others }: Rounds): string {
  const share = median(ours.map(round => round.loadCpuMicros / round.cpuMicros))
  const cost = `making the load cost ${share.toFixed(2)} of the CPU that our server took`
  const lateMs = [ours, ...Object.values(others)].flat().flatMap(round => round.loadLateP99Ms ?? [])
  if (lateMs.length === 0) return cost
  const rate = Math.round(median(ours.map(round => round.decisionsPerSecond)))
  const [usual, worst] = [median(lateMs), Math.max(...lateMs)].map(formatNumber)
  return `${cost}, at ${rate} calls/s; its own p99 lateness was ${usual} ms, in the worst round ${worst}`
}

/** Returns notes about the cost of answering alone, compared with the contestants. */
function floorNotes(byName: Rounds): readonly string[] {
  return floors.flatMap(({ floor, other }) => {
    const [bare, theirs] = [byName[floor.name], byName[other.name]]
    if (bare === undefined || theirs === undefined) return []
    const cpu = median(roundRatios('cpuMicros', bare, theirs)).toFixed(2)
    const rate = median(roundRatios('decisionsPerSecond', bare, theirs)).toFixed(1)
    return [`${floor.name} take ${cpu} of the CPU of the ${other.name}, at ${rate} times its rate`]
  })
}

function missingNotes({ others = [] }: ContestCase): readonly string[] {
  return others.flatMap(({ name, missing }) => {
    const why = missing?.() ?? false
    return why === false ? [] : [`without the ${name}: ${why}`]
  })
}
