import type { RedisServer } from '../support/redis-server.ts'
import type { LoadResult } from './load/load-connection.ts'
import { type LatencyFigures, latencyFigures } from './percentiles.ts'
import { cpuMicros, rssMiB } from './process-usage.ts'
import type { MeasuredServer } from './servers.ts'

/** What a round of load on one server tells. */
export interface Measurement extends LatencyFigures {
  readonly calls: number
  /** User and system time of the server, a call. */
  readonly cpuMicros: number
  readonly decisionsPerSecond: number
  /** Of a broker, whose calls are messages that a consumer got. */
  readonly deliveriesPerSecond?: number
  /** Of an API, or of what stands in for it. */
  readonly requestsPerSecond?: number
  readonly rssMiB: number
  /** The RSS without that of a process of Node that does nothing. */
  readonly rssBeyondNodeMiB?: number
  /** The share of the round in which the server's garbage collector stopped it. */
  readonly gcShare?: number
  readonly redisCommands: number
  /** What making the load cost, a call. */
  readonly loadCpuMicros: number
  /** How late the load itself was at p99, when it had a schedule. */
  readonly loadLateP99Ms?: number
  /** How much of its core the server used, and load and Redis of theirs: 1 is all of it. */
  readonly serverBusy: number
  readonly otherCoreBusy: number
}

/**
 * Runs the load and tells what it cost.
 *
 * @throws Error when an answer was not the one that was expected.
 */
export async function measure(
  server: MeasuredServer,
  redis: RedisServer,
  drive: () => Promise<LoadResult & { readonly loadLateP99Ms?: number }>,
): Promise<Measurement> {
  const before = await usage(server, redis)
  const { calls, failed, seconds, latenciesMs, loadCpuMicros, loadLateP99Ms } = await drive()
  // Read at once, while the memory is still what the load made it.
  const rss = rssMiB(server.pid)
  const after = await usage(server, redis)
  if (failed > 0) throw new Error(`${failed} of ${calls} answers of ${server.name} were not as expected`)
  const serverMicros = after.serverMicros - before.serverMicros
  const redisMicros = after.redisMicros - before.redisMicros
  return {
    calls,
    cpuMicros: serverMicros / calls,
    decisionsPerSecond: calls / seconds,
    ...latencyFigures(latenciesMs),
    rssMiB: rss,
    ...(after.gcMs !== undefined && { gcShare: (after.gcMs - (before.gcMs ?? 0)) / 1000 / seconds }),
    ...(loadLateP99Ms !== undefined && { loadLateP99Ms }),
    redisCommands: (after.commands - before.commands) / calls,
    loadCpuMicros: loadCpuMicros / calls,
    serverBusy: serverMicros / 1e6 / seconds,
    otherCoreBusy: (redisMicros + loadCpuMicros) / 1e6 / seconds,
  }
}

async function usage(server: MeasuredServer, redis: RedisServer) {
  const serverMicros = cpuMicros(server.pid)
  const redisMicros = cpuMicros(redis.pid)
  const gcMs = await server.gcMs()
  return { serverMicros, redisMicros, gcMs, commands: await commandsOf(redis) }
}

/** All commands that Redis was sent since its start, by whomever. */
async function commandsOf(redis: RedisServer): Promise<number> {
  const info = await redis.command('INFO', 'stats')
  return Number(/total_commands_processed:(\d+)/.exec(info)?.[1])
}
