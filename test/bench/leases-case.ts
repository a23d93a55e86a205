import type { MessageInitShape } from '@bufbuild/protobuf'
import {
  RateLimitCounting,
  type RateLimitPolicySchema,
  RateLimitUnit,
} from '@tollway/proto/ratelimit/config/ratelimit/v3/rls_conf'
import { encodeDomain, encodeResponse, startLimitFeed } from '../support/limit-feed.ts'
import { type RedisServer, startRedis } from '../support/redis-server.ts'
import type { BenchCase, CaseResult, Extent } from './bench-case.ts'
import { type Comparison, compareRounds, cpuRatio, latencyRatio, rateRatio } from './compare.ts'
import { domain, generous, userQuestions, userRule } from './configurations.ts'
import { reference, startReferenceServer } from './contestants.ts'
import { createDecisionLoads } from './decision-load.ts'
import { formatNumber } from './format-number.ts'
import { inTurn } from './in-turn.ts'
import { driveSchedule } from './load/at-rate.ts'
import { driveFlatOut } from './load/flat-out.ts'
import { randomSchedule } from './load/schedule.ts'
import { type Measurement, measure } from './measure.ts'
import { median } from './percentiles.ts'
import { type MeasuredServer, startOurs } from './servers.ts'

/** `counting: Leased` of the service, against `Exact` or against envoyproxy/ratelimit. */
interface LeasesCase {
  readonly name: string
  readonly title: string
  readonly keys: number
  readonly connections: number
  readonly streams: number
  /** Random arrivals over all connections, against envoyproxy/ratelimit too; the full rate when left out. */
  readonly randomPerSecond?: number
  /** Whether a rule without a limit is measured too. */
  readonly hasFloor?: boolean
  readonly comparisons: readonly Comparison[]
}

function leasesCase(shape: LeasesCase): BenchCase {
  const { name, title } = shape
  return { name, title, long: true, needs: ['redis-server'], run: extent => run(shape, extent) }
}

/** The floor of leases: the sockets of the callers, and no counter. */
const unlimited = 'UNLIMITED'

async function startCounting(counting: RateLimitCounting | typeof unlimited, redisPort: number) {
  const feed = await startLimitFeed()
  const isUnlimited = counting === unlimited
  const name = isUnlimited ? unlimited : RateLimitCounting[counting]
  const rateLimit: MessageInitShape<typeof RateLimitPolicySchema> = isUnlimited
    ? { unlimited: true }
    : { unit: RateLimitUnit.DAY, requestsPerUnit: generous, counting }
  feed.send(
    encodeResponse('1', [encodeDomain({ name: domain, domain, descriptors: [{ key: 'user', rateLimit }] })]),
  )
  const settings = { ...feed.settings, CACHE_KEY_PREFIX: `${name}_` }
  const server = await startOurs({ name, rules: userRule(generous), redisPort, settings })
  const end = async () => {
    await server.end()
    await feed.stop()
  }
  return { ...server, end }
}

async function run(shape: LeasesCase, extent: Extent): Promise<CaseResult> {
  const redis = await startRedis()
  const servers: MeasuredServer[] = []
  try {
    servers.push(await startCounting(RateLimitCounting.LEASED, redis.port))
    servers.push(await startCounting(RateLimitCounting.EXACT, redis.port))
    if (shape.hasFloor) servers.push(await startCounting(unlimited, redis.port))
    const hasReference = shape.randomPerSecond !== undefined && reference.missing?.() === false
    if (hasReference) {
      servers.push(await startReferenceServer({ rules: userRule(generous), redisPort: redis.port }))
    }
    const { rounds, roundMs, warmUpMs, firstWarmUpMs } = extent
    const drive = driverOf(shape)
    for (const server of servers) await drive(server, firstWarmUpMs, 0)
    const measurements = await inTurn<MeasuredServer, Measurement>(servers, rounds, async (server, round) => {
      await drive(server, warmUpMs, 0)
      const before = await countReceived(redis)
      const measurement = await measure(server, [redis], () => drive(server, roundMs, 1 + round))
      const redisCommands = ((await countReceived(redis)) - before) / measurement.calls
      return { ...measurement, redisCommands }
    })
    const byName = Object.fromEntries(servers.map(({ name }, place) => [name, measurements[place] ?? []]))
    const [leased = []] = measurements
    const rows = shape.comparisons.flatMap(comparison => {
      const other = byName[comparison.against ?? 'EXACT']
      return other === undefined ? [] : compareRounds([comparison], leased, other)
    })
    const floor = byName[unlimited]
    if (floor !== undefined) rows.push(...compareRounds([floorRatio], floor, byName['EXACT'] ?? []))
    return { rows, measurements: byName, notes: servers.map(({ name }) => noteOf(name, byName[name] ?? [])) }
  } finally {
    await Promise.all(servers.map(server => server.end()))
    await redis.stop()
  }
}

/**
 * Returns the number of commands that Redis has received, without those that scripts have called: for a fixed
 * window these are TIME, GET and INCRBY, and no other part of the service sends a GET.
 */
async function countReceived(redis: RedisServer): Promise<number> {
  const stats = await redis.command('INFO', 'commandstats')
  const calls = new Map(
    [...stats.matchAll(/^cmdstat_(\S+?):calls=(\d+)/gm)].map(([, name = '', count]) => [name, Number(count)]),
  )
  const [time = 0, get = 0, incrby = 0] = ['time', 'get', 'incrby'].map(name => calls.get(name))
  const all = [...calls.values()].reduce((sum, count) => sum + count, 0)
  return all - time - get - Math.min(get, incrby)
}

function driverOf({ keys, connections, streams, randomPerSecond }: LeasesCase) {
  const questions = userQuestions(keys)
  const loads = createDecisionLoads({ protocol: 'grpc', questions, connections, streams, over: false })
  return (server: MeasuredServer, durationMs: number, round: number) =>
    randomPerSecond === undefined
      ? driveFlatOut(loads.uniform(server), { durationMs })
      : driveSchedule(
          loads.uniform(server),
          randomSchedule(randomPerSecond, durationMs, connections, 1 + round),
        )
}

function noteOf(name: string, rounds: readonly Measurement[]): string {
  const of = (figure: 'cpuMicros' | 'redisCommands' | 'p50Ms' | 'p99Ms' | 'decisionsPerSecond') =>
    formatNumber(median(rounds.map(round => round[figure])))
  return (
    `${name}: ${of('decisionsPerSecond')} decisions/s, ${of('cpuMicros')} µs of CPU and ${of('redisCommands')} ` +
    `commands a decision, p50 ${of('p50Ms')} ms, p99 ${of('p99Ms')} ms`
  )
}

const { goal: _, ...withoutGoal } = cpuRatio
const floorRatio: Comparison = {
  ...withoutGoal,
  what: 'CPU a decision of a rule without a limit, to that of Exact',
}

const commandRatio: Comparison = {
  what: 'Redis commands a decision',
  figure: 'redisCommands',
  unit: 'commands',
  of: 'ratio',
}

function arrivals(randomPerSecond: number, keys: number, goals: readonly Comparison[] = []): LeasesCase {
  const against = reference.name
  const named = [cpuRatio, latencyRatio('p99Ms', 1)].map(({ goal: _, ...each }) => ({
    ...each,
    what: `${each.what}, to the ${against}'s`,
    against,
  }))
  return {
    name: `leases-${randomPerSecond}-${keys}`,
    title: `Leased, ${randomPerSecond.toLocaleString('en')}/s at random over 100 connections, ${keys.toLocaleString('en')} keys`,
    ...{ keys, connections: 100, streams: 10, randomPerSecond, hasFloor: goals.length > 0 },
    comparisons: [...(goals.length > 0 ? goals : named), cpuRatio, commandRatio],
  }
}

export const leasesCases: readonly BenchCase[] = [
  {
    name: 'leases-hot',
    title: 'Leased and Exact, 16 hot keys, 50 connections × 1 in flight',
    ...{ keys: 16, connections: 50, streams: 1, hasFloor: true },
    comparisons: [
      { ...commandRatio, goal: { atMost: 1 / 20 } },
      latencyRatio('p50Ms', 0.6),
      { ...cpuRatio, goal: { atMost: 0.6 } },
    ],
  },
  {
    name: 'leases-uniform',
    title: 'Leased and Exact, 10,000 uniform keys, 100 streams in flight',
    ...{ keys: 10_000, connections: 1, streams: 100 },
    comparisons: [
      { ...cpuRatio, goal: { atMost: 1.05 } },
      { ...rateRatio, goal: { atLeast: 0.95 } },
      commandRatio,
    ],
  },
  ...[1_000, 5_000, 15_000].map(rate => arrivals(rate, 10_000)),
  arrivals(1_000, 100),
  arrivals(5_000, 100, [
    {
      ...cpuRatio,
      what: "CPU a decision, to the reference's",
      against: reference.name,
      goal: { atMost: 0.15 },
    },
    { ...latencyRatio('p99Ms', 0.5), what: "p99, to the reference's", against: reference.name },
  ]),
  arrivals(15_000, 100),
].map(leasesCase)
