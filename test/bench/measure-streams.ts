import type { StreamLoadResult } from './load/stream-load.ts'
import type { Measurement } from './measure.ts'
import { latencyFigures } from './percentiles.ts'
import { cpuMicros, rssMiB } from './process-usage.ts'
import type { MeasuredServer } from './servers.ts'

export type StreamMeasurement = Omit<Measurement, 'decisionsPerSecond' | 'redisCommands'> & {
  readonly deliveriesPerSecond: number
}

/**
 * Runs the load and returns its total cost for all of these servers, which share a core.
 *
 * @throws Error when a consumer missed a message
 */
export async function measureStreams(
  servers: readonly MeasuredServer[],
  drive: () => Promise<StreamLoadResult>,
): Promise<StreamMeasurement> {
  const before = await usage(servers)
  const { deliveries, lost, seconds, latenciesMs, loadCpuMicros } = await drive()
  // Read at once, before the memory changes.
  const rss = sum(servers.map(({ pid }) => rssMiB(pid)))
  const after = await usage(servers)
  const names = servers.map(({ name }) => name).join(' and ')
  if (lost > 0) throw new Error(`consumers of ${names} missed ${lost} messages and got ${deliveries}`)
  const serverMicros = after.micros - before.micros
  return {
    calls: deliveries,
    cpuMicros: serverMicros / deliveries,
    deliveriesPerSecond: deliveries / seconds,
    ...latencyFigures(latenciesMs),
    rssMiB: rss,
    gcShare: (after.gcMs - before.gcMs) / 1000 / seconds,
    loadCpuMicros: loadCpuMicros / deliveries,
    serverBusy: serverMicros / 1e6 / seconds,
    otherCoreBusy: loadCpuMicros / 1e6 / seconds,
  }
}

async function usage(servers: readonly MeasuredServer[]) {
  const micros = sum(servers.map(({ pid }) => cpuMicros(pid)))
  return { micros, gcMs: sum(await Promise.all(servers.map(async server => (await server.gcMs()) ?? 0))) }
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0)
}
