import { RateLimitAlgorithm, RateLimitUnit } from '@tollway/proto/ratelimit/config/ratelimit/v3/rls_conf'
import {
  encodeDomain,
  encodeResponse,
  type LimitDomainMessage,
  startLimitFeed,
} from '../support/limit-feed.ts'
import { startRedisCluster } from '../support/redis-cluster.ts'
import { type RedisServer, startRedis } from '../support/redis-server.ts'
import type { BenchCase, CaseResult, Extent } from './bench-case.ts'
import { type Comparison, compareRounds, cpuRatio, rateRatio } from './compare.ts'
import { domain, generous, userRule } from './configurations.ts'
import { createDecisionLoads } from './decision-load.ts'
import { formatNumber } from './format-number.ts'
import { inTurn } from './in-turn.ts'
import { driveFlatOut } from './load/flat-out.ts'
import { matchKinds } from './match-kinds.ts'
import { type Measurement, measure } from './measure.ts'
import { median } from './percentiles.ts'
import { type MeasuredServer, startOurs } from './servers.ts'

/** Kinds of rules with counters in Redis, against the first of them in the same service. */
interface RulesCase {
  readonly name: string
  readonly title: string
  readonly contestants: Readonly<Record<string, Contestant>>
  readonly connections: number
  /** The calls in flight on each connection. */
  readonly streams: number
  readonly hasGoals?: boolean
  openRedis(): Promise<RedisUnderTest>
}

/** Rules of one key, and the values that are asked for it. Each server has all rules, and a load with those of one. */
interface Contestant {
  readonly rules: readonly Descriptor[]
  readonly values: readonly string[]
}

type Descriptor = NonNullable<LimitDomainMessage['descriptors']>[number]

interface RedisUnderTest {
  readonly servers: readonly RedisServer[]
  readonly settings: Readonly<Record<string, string>>
  stop(): Promise<void>
}

const unit = RateLimitUnit.DAY
/** Any tick is exact with this limit, which no run reaches. */
const requestsPerUnit = generous / 100
const sliding = { unit, requestsPerUnit, algorithm: RateLimitAlgorithm.SLIDING_WINDOW }
const bucket = { unit, requestsPerUnit, algorithm: RateLimitAlgorithm.TOKEN_BUCKET }

/** Nothing is given back, so that a key has the holds of a second. */
const concurrency = {
  ...{ maxConcurrent: requestsPerUnit, leaseSeconds: 1 },
  algorithm: RateLimitAlgorithm.CONCURRENCY,
}

const algorithms: Readonly<Record<string, Descriptor>> = {
  FixedWindow: { key: 'fixed', rateLimit: { unit, requestsPerUnit } },
  SlidingWindow: { key: 'sliding', rateLimit: sliding },
  TokenBucket: { key: 'bucket', rateLimit: bucket },
  Concurrency: { key: 'concurrency', rateLimit: concurrency },
  'two limits': { key: 'limits', limits: [bucket, { unit, requestsPerUnit }] },
}

const contestAlgorithms = (keys: number, names = Object.keys(algorithms)) =>
  Object.fromEntries(
    names.map((name): [string, Contestant] => [
      name,
      { rules: [algorithms[name] ?? {}], values: Array.from({ length: keys }, (_, index) => `k${index}`) },
    ]),
  )

const contestMatches = () =>
  Object.fromEntries(
    Object.entries(matchKinds).map(([name, { rules, values }]): [string, Contestant] => [
      name,
      {
        rules: rules.map(
          rule => ({ ...rule, key: name, rateLimit: { unit, requestsPerUnit } }) as Descriptor,
        ),
        values,
      },
    ]),
  )

const redisCpu: Comparison = {
  what: "Redis's CPU a decision",
  figure: 'redisCpuMicros',
  unit: 'µs',
  of: 'ratio',
}

function rulesCase(shape: RulesCase): BenchCase {
  const { name, title } = shape
  return { name, title, long: true, needs: ['redis-server'], run: extent => run(shape, extent) }
}

async function run(shape: RulesCase, extent: Extent): Promise<CaseResult> {
  const redis = await shape.openRedis()
  const feed = await startLimitFeed()
  const servers: MeasuredServer[] = []
  try {
    const descriptors = Object.values(shape.contestants).flatMap(({ rules }) => rules)
    const resource = encodeDomain({ name: domain, domain, descriptors })
    feed.send(encodeResponse('1', [resource]))
    const settings = { ...redis.settings, ...feed.settings }
    for (const name of Object.keys(shape.contestants)) {
      servers.push(await startOurs({ name, rules: userRule(generous), redisPort: 0, settings }))
    }
    return await measureServers(shape, extent, redis, servers)
  } finally {
    await Promise.all(servers.map(server => server.end()))
    await feed.stop()
    await redis.stop()
  }
}

async function measureServers(
  shape: RulesCase,
  { rounds, roundMs, warmUpMs, firstWarmUpMs }: Extent,
  redis: RedisUnderTest,
  servers: readonly MeasuredServer[],
): Promise<CaseResult> {
  const names = Object.keys(shape.contestants)
  const loads = new Map(servers.map(server => [server, loadsOf(shape, server.name)]))
  const drive = (server: MeasuredServer, durationMs: number) => {
    const load = loads.get(server)?.uniform(server)
    if (load === undefined) throw new Error(`there is no load for ${server.name}`)
    return driveFlatOut(load, { durationMs })
  }
  for (const server of servers) await drive(server, firstWarmUpMs)
  const measurements = await inTurn<MeasuredServer, Measurement>(servers, rounds, async server => {
    await drive(server, warmUpMs)
    return measure(server, redis.servers, () => drive(server, roundMs))
  })
  const [fixed = [], ...others] = measurements
  const goals = shape.hasGoals ? { cpu: { atMost: 1.5 }, rate: { atLeast: 0.7 } } : undefined
  const comparisons: readonly Comparison[] = [
    { ...rateRatio, ...(goals && { goal: goals.rate }) },
    { ...cpuRatio, ...(goals && { goal: goals.cpu }) },
    redisCpu,
  ]
  const rows = others.flatMap((figures, index) => {
    const named = comparisons.map(each => ({ ...each, what: `${names[index + 1]}: ${each.what}` }))
    return compareRounds(named, figures, fixed)
  })
  return {
    rows,
    measurements: Object.fromEntries(names.map((name, index) => [name, measurements[index] ?? []])),
    notes: names.map((name, index) => busyNote(name, measurements[index] ?? [])),
  }
}

function loadsOf({ contestants, connections, streams }: RulesCase, name: string) {
  const { rules, values } = contestants[name] ?? { rules: [], values: [] }
  const key = rules[0]?.key ?? ''
  const questions = values.map(value => ({ domain, descriptors: [{ entries: [{ key, value }] }] }))
  return createDecisionLoads({ protocol: 'grpc', questions, connections, streams, over: false })
}

function busyNote(name: string, rounds: readonly Measurement[]): string {
  const of = (figure: 'serverBusy' | 'otherCoreBusy' | 'redisCommands') =>
    formatNumber(median(rounds.map(round => round[figure])))
  return (
    `${name}: the server used ${of('serverBusy')} of its core, load and Redis ${of('otherCoreBusy')} ` +
    `of theirs; ${of('redisCommands')} commands a decision`
  )
}

async function openMaster(): Promise<RedisUnderTest> {
  const server = await startRedis()
  const settings = { KVSTORE_URL: `127.0.0.1:${server.port}` }
  return { servers: [server], settings, stop: () => server.stop() }
}

async function openCluster(): Promise<RedisUnderTest> {
  const cluster = await startRedisCluster()
  const settings = { KVSTORE_TYPE: 'cluster', KVSTORE_URL: cluster.url }
  return { servers: cluster.masters, settings, stop: () => cluster.stop() }
}

const inFlight = { connections: 1, streams: 100 }
const manyConnections = { connections: 50, streams: 1 }

export const algorithmsCases: readonly BenchCase[] = [
  {
    name: 'algorithms',
    title: 'algorithms, 10,000 uniform keys on one master, 100 streams in flight',
    contestants: contestAlgorithms(10_000),
    ...inFlight,
    hasGoals: true,
    openRedis: openMaster,
  },
  {
    name: 'algorithms-hot-key',
    title: 'algorithms, one hot key, 100 streams in flight',
    contestants: contestAlgorithms(1),
    ...inFlight,
    openRedis: openMaster,
  },
  {
    name: 'algorithms-cluster',
    title: 'algorithms, 10,000 uniform keys on a cluster of three masters, 100 streams in flight',
    contestants: contestAlgorithms(10_000),
    ...inFlight,
    openRedis: openCluster,
  },
  {
    name: 'concurrency-connections',
    title: 'Concurrency and FixedWindow, 10,000 uniform keys, 50 connections × 1 in flight',
    contestants: contestAlgorithms(10_000, ['FixedWindow', 'Concurrency']),
    ...manyConnections,
    openRedis: openMaster,
  },
  {
    name: 'match-connections',
    title: '1,000 patterns of each kind on one level, 50 connections × 1 in flight',
    contestants: contestMatches(),
    ...manyConnections,
    openRedis: openMaster,
  },
].map(rulesCase)
