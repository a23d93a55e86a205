import { RateLimitAlgorithm, RateLimitUnit } from '@tollway/proto/ratelimit/config/ratelimit/v3/rls_conf'
import { encodeDomain, encodeResponse, startLimitFeed } from '../support/limit-feed.ts'
import { startRedisCluster } from '../support/redis-cluster.ts'
import { type RedisServer, startRedis } from '../support/redis-server.ts'
import type { BenchCase, CaseResult, Extent } from './bench-case.ts'
import { type Comparison, compareRounds, cpuRatio, rateRatio } from './compare.ts'
import { domain, generous, userRule } from './configurations.ts'
import { createDecisionLoads } from './decision-load.ts'
import { formatNumber } from './format-number.ts'
import { inTurn } from './in-turn.ts'
import { driveFlatOut } from './load/flat-out.ts'
import { type Measurement, measure } from './measure.ts'
import { median } from './percentiles.ts'
import { type MeasuredServer, startOurs } from './servers.ts'

/** The algorithms in Redis, against fixed windows of the same service. */
interface AlgorithmsCase {
  readonly name: string
  readonly title: string
  readonly keys: number
  readonly hasGoals: boolean
  openRedis(): Promise<RedisUnderTest>
}

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

/** The descriptors by the names of the servers. Each server has all of them, and a load with one. */
const descriptors = {
  FixedWindow: { key: 'fixed', rateLimit: { unit, requestsPerUnit } },
  SlidingWindow: { key: 'sliding', rateLimit: sliding },
  TokenBucket: { key: 'bucket', rateLimit: bucket },
  Concurrency: { key: 'concurrency', rateLimit: concurrency },
  'two limits': { key: 'limits', limits: [bucket, { unit, requestsPerUnit }] },
}
type Name = keyof typeof descriptors
const names = Object.keys(descriptors) as Name[]

const redisCpu: Comparison = {
  what: "Redis's CPU a decision",
  figure: 'redisCpuMicros',
  unit: 'µs',
  of: 'ratio',
}

function algorithmsCase(shape: AlgorithmsCase): BenchCase {
  const { name, title } = shape
  return { name, title, long: true, needs: ['redis-server'], run: extent => run(shape, extent) }
}

async function run(shape: AlgorithmsCase, extent: Extent): Promise<CaseResult> {
  const redis = await shape.openRedis()
  const feed = await startLimitFeed()
  const servers: MeasuredServer[] = []
  try {
    const resource = encodeDomain({ name: domain, domain, descriptors: Object.values(descriptors) })
    feed.send(encodeResponse('1', [resource]))
    const settings = { ...redis.settings, ...feed.settings }
    for (const name of names) {
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
  { keys, hasGoals }: AlgorithmsCase,
  { rounds, roundMs, warmUpMs, firstWarmUpMs }: Extent,
  redis: RedisUnderTest,
  servers: readonly MeasuredServer[],
): Promise<CaseResult> {
  const loads = new Map(servers.map(server => [server, loadsOf(server.name as Name, keys)]))
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
  const goals = hasGoals ? { cpu: { atMost: 1.5 }, rate: { atLeast: 0.7 } } : undefined
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

function loadsOf(name: Name, keys: number) {
  const { key } = descriptors[name]
  const questions = Array.from({ length: keys }, (_, index) => ({
    domain,
    descriptors: [{ entries: [{ key, value: `k${index}` }] }],
  }))
  return createDecisionLoads({ protocol: 'grpc', questions, connections: 1, streams: 100, over: false })
}

function busyNote(name: Name, rounds: readonly Measurement[]): string {
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

export const algorithmsCases: readonly BenchCase[] = [
  {
    name: 'algorithms',
    title: 'algorithms, 10,000 uniform keys on one master, 100 streams in flight',
    keys: 10_000,
    hasGoals: true,
    openRedis: openMaster,
  },
  {
    name: 'algorithms-hot-key',
    title: 'algorithms, one hot key, 100 streams in flight',
    keys: 1,
    hasGoals: false,
    openRedis: openMaster,
  },
  {
    name: 'algorithms-cluster',
    title: 'algorithms, 10,000 uniform keys on a cluster of three masters, 100 streams in flight',
    keys: 10_000,
    hasGoals: false,
    openRedis: openCluster,
  },
].map(algorithmsCase)
