import type { RedisServer } from '../support/redis-server.ts'
import type { LoadResult } from './load/load-connection.ts'
import { type LatencyFigures, latencyFigures } from './percentiles.ts'
import { cpuMicros, rssMiB } from './process-usage.ts'
import type { MeasuredServer } from './servers.ts'

/** The figures of a round of load on one server. */
export interface Measurement extends LatencyFigures {
  readonly calls: number
  /** The user and system time of the server for each call. */
  readonly cpuMicros: number
  readonly decisionsPerSecond: number
  /** The rate of a broker, whose calls are delivered messages. */
  readonly deliveriesPerSecond?: number
  /** The rate of an API, or of its replacement. */
  readonly requestsPerSecond?: number
  readonly rssMiB: number
  /** The RSS minus that of an idle Node process. */
  readonly rssBeyondNodeMiB?: number
  /** The share of the round in which the server's garbage collector stopped it. */
  readonly gcShare?: number
  readonly redisCommands: number
  /** The CPU time of Redis for each call. */
  readonly redisCpuMicros?: number
  /** The CPU time of the load for each call. */
  readonly loadCpuMicros: number
  /** The lateness of the load at p99, if it had a schedule. */
  readonly loadLateP99Ms?: number
  /** The share of its core that the server used, and the share that load and Redis used: 1 is all of it. */
  readonly serverBusy: number
  readonly otherCoreBusy: number
}

/**
 * Runs the load and returns its cost.
 *
 * @param redis the servers of Redis
 * @throws Error when an answer was not the expected one
 */
export async function measure(
  server: MeasuredServer,
  redis: readonly RedisServer[],
  drive: () => Promise<LoadResult & { readonly loadLateP99Ms?: number }>,
): Promise<Measurement> {
  const before = await usage(server, redis)
  const { calls, failed, seconds, latenciesMs, loadCpuMicros, loadLateP99Ms } = await drive()
  // Read at once, before the memory changes.
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
    redisCpuMicros: redisMicros / calls,
    loadCpuMicros: loadCpuMicros / calls,
    serverBusy: serverMicros / 1e6 / seconds,
    otherCoreBusy: (redisMicros + loadCpuMicros) / 1e6 / seconds,
  }
}

async function usage(server: MeasuredServer, redis: readonly RedisServer[]) {
  const serverMicros = cpuMicros(server.pid)
  const redisMicros = sum(redis.map(({ pid }) => cpuMicros(pid)))
  const gcMs = await server.gcMs()
  return { serverMicros, redisMicros, gcMs, commands: sum(await Promise.all(redis.map(commandsOf))) }
}

/** Returns the number of all commands that Redis has received since its start. */
async function commandsOf(redis: RedisServer): Promise<number> {
  const info = await redis.command('INFO', 'stats')
  return Number(/total_commands_processed:(\d+)/.exec(info)?.[1])
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0)
}
