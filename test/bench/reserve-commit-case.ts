import { create, toBinary } from '@bufbuild/protobuf'
import { ReserveRequestSchema } from '@tollway/proto/tollway/ratelimit/v1/budgets'
import { type RedisServer, startRedis } from '../support/redis-server.ts'
import type { BenchCase, CaseResult, Extent } from './bench-case.ts'
import { type Comparison, compareRounds } from './compare.ts'
import { generous, userQuestions, userRule } from './configurations.ts'
import { createDecisionLoads } from './decision-load.ts'
import type { Goal } from './goals.ts'
import { inTurn } from './in-turn.ts'
import { driveAtRate } from './load/at-rate.ts'
import { driveFlatOut } from './load/flat-out.ts'
import { grpcLoad } from './load/grpc-connection.ts'
import type { Load } from './load/load-connection.ts'
import { grpcMessage, uniform } from './load/requests.ts'
import { type Measurement, measure } from './measure.ts'
import { type MeasuredServer, startOurs } from './servers.ts'

/**
 * Reserve and then Commit, beside ShouldRateLimit on the same keys. A call costs less the more others arrive
 * with it, so that at full rate the cheaper method has an advantage: the goal is also measured at one rate.
 */
interface ReserveCommitCase {
  readonly name: string
  readonly title: string
  readonly backend: 'memory' | 'redis'
  /** Calls a second of either server; a Reserve and its Commit are two. Undefined for the full rate. */
  readonly callsPerSecond?: number
  readonly goal?: Goal
}

const questions = userQuestions(1_000)
const connections = 50
/** At a given rate, this many calls of a connection may wait for their answers. */
const mostStreams = 10
/** At full rate a server is warm after as many calls, not after a time: a busy machine would measure cold code. */
const warmUpCalls = 20_000

const reserveCommit = 'Reserve and Commit beside ShouldRateLimit, 1,000 keys'

export const reserveCommitCases: readonly BenchCase[] = [
  {
    name: 'reserve-commit',
    title: `${reserveCommit}, 50 connections × 1 in flight`,
    backend: 'redis' as const,
    goal: { atMost: 2.5, bearable: 10 },
  },
  {
    name: 'reserve-commit-rate',
    title: `${reserveCommit}, 50 connections, 4,000 calls/s each`,
    backend: 'redis' as const,
    callsPerSecond: 4_000,
    goal: { atMost: 2.5 },
  },
  {
    name: 'reserve-commit-memory',
    title: `${reserveCommit}, in memory, 50 connections × 1 in flight`,
    backend: 'memory' as const,
  },
].map(shape => ({
  name: shape.name,
  title: shape.title,
  needs: shape.backend === 'redis' ? ['redis-server'] : [],
  run: extent => run(shape, extent),
}))

async function run(shape: ReserveCommitCase, extent: Extent): Promise<CaseResult> {
  const redis = shape.backend === 'redis' ? [await startRedis()] : []
  const settings = { BACKEND_TYPE: shape.backend }
  const ours = { rules: userRule(generous), redisPort: redis[0]?.port ?? 0, settings }
  const servers: MeasuredServer[] = []
  try {
    for (const name of ['ShouldRateLimit', 'Reserve and Commit'])
      servers.push(await startOurs({ ...ours, name }))
    return await measureLoads(shape, servers, redis, extent)
  } finally {
    await Promise.all(servers.map(server => server.end()))
    await redis[0]?.stop()
  }
}

async function measureLoads(
  { callsPerSecond, goal }: ReserveCommitCase,
  servers: readonly MeasuredServer[],
  redis: readonly RedisServer[],
  { rounds, roundMs, warmUpMs, firstWarmUpMs }: Extent,
): Promise<CaseResult> {
  const decisions = createDecisionLoads({ protocol: 'grpc', questions, connections, streams: 1, over: false })
  const loadOf = (server: MeasuredServer) =>
    server === servers[0] ? decisions.uniform(server) : reservations(server)
  const drive = (server: MeasuredServer, durationMs: number) => {
    const isPair = server !== servers[0]
    const load = loadOf(server)
    if (callsPerSecond === undefined) return driveFlatOut(load, { durationMs })
    const paced = { ...load, streams: mostStreams }
    return driveAtRate(paced, isPair ? callsPerSecond / 2 : callsPerSecond, durationMs)
  }
  for (const server of servers) {
    if (callsPerSecond === undefined) await driveFlatOut(loadOf(server), { calls: warmUpCalls })
    else await drive(server, firstWarmUpMs)
  }
  const [calls = [], pairs = []] = await inTurn<MeasuredServer, Measurement>(
    servers,
    rounds,
    async server => {
      await drive(server, warmUpMs)
      return measure(server, redis, () => drive(server, roundMs))
    },
  )
  const cpu: Comparison = { what: 'CPU', figure: 'cpuMicros', unit: 'µs', of: 'ratio', ...(goal && { goal }) }
  const redisCpu: Comparison = { what: "Redis's CPU", figure: 'redisCpuMicros', unit: 'µs', of: 'ratio' }
  return {
    rows: compareRounds(redis.length > 0 ? [cpu, redisCpu] : [cpu], pairs, calls),
    measurements: { ShouldRateLimit: calls, 'Reserve and Commit': pairs },
    notes: [],
  }
}

const bodies = questions.map(({ domain, descriptors: [descriptor] }) => {
  const shape = { domain, descriptor, amount: 2n, ttl: { seconds: 60n } }
  return grpcMessage(toBinary(ReserveRequestSchema, create(ReserveRequestSchema, shape as object)))
})

function reservations({ port }: MeasuredServer): Load {
  const next = uniform(bodies.length)
  return {
    open: grpcLoad({
      port,
      path: '/tollway.ratelimit.v1.Budgets/Reserve',
      expects: message => message[0] === fieldHead(1),
      followUp: { path: '/tollway.ratelimit.v1.Budgets/Commit', bodyOf: toCommit },
    }),
    connections,
    streams: 1,
    bodyOf: () => bodies[next()] ?? Buffer.alloc(0),
  }
}

const fieldHead = (field: number) => (field << 3) | 2
const idAt = 4

/** Makes a CommitRequest of 1 from a ReserveResponse, by hand because the load shall cost little. */
function toCommit(message: Buffer): Buffer {
  const id = message.subarray(idAt, idAt + (message[idAt - 1] ?? 0))
  return grpcMessage(Buffer.concat([Buffer.from([fieldHead(1), id.length]), id, Buffer.from([2 << 3, 1])]))
}
