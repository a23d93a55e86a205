import { percentile } from '../percentiles.ts'
import { endOfLoad } from './flat-out.ts'
import type { Load, LoadResult } from './load-connection.ts'
import { createPacer, type Pacer } from './pacer.ts'
import { evenSchedule, type Schedule } from './schedule.ts'
import { startTicker } from './ticker.ts'

/**
 * The shortest time between two ticks. A tick wakes two threads, so shorter intervals would fill the core.
 */
const leastMs = 0.25
const timeoutMs = 20_000

export interface OpenLoadResult extends LoadResult {
  /** The lateness of the load at p99: from the due time of a call to its tick. */
  readonly loadLateP99Ms: number
}

/** Makes calls at a constant rate, evenly; see `driveSchedule`. */
export function driveAtRate(load: Load, callsPerSecond: number, durationMs: number): Promise<OpenLoadResult> {
  return driveSchedule(load, evenSchedule(callsPerSecond, durationMs, load.connections))
}

/**
 * Sends the calls of a schedule when they are due. A latency counts from the due time, which is before the
 * send if the server or this process was late.
 *
 * @throws Error when a connection ends, or answers do not arrive
 */
export async function driveSchedule(load: Load, schedule: Schedule): Promise<OpenLoadResult> {
  const { connections, streams, bodyOf, open } = load
  const calls = schedule.dueMs.length
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  let failed = 0
  let pacer: Pacer | undefined
  const listener = {
    answered(call: number, ok: boolean) {
      if (!ok) failed += 1
      pacer?.answered(call)
    },
    lost: (reason: string) => reject(new Error(`the load lost a connection: ${reason}`)),
  }
  const opened = await Promise.all(Array.from({ length: connections }, () => open(listener)))
  const ticker = await startTicker(schedule.dueMs, leastMs, () => pacer?.tick())
  const cpuBefore = process.cpuUsage()
  const startedMs = ticker.start()
  pacer = createPacer({
    schedule,
    startedMs,
    connections,
    streams,
    nowMs: () => performance.now(),
    send: (connection, call) => opened[connection]?.send(bodyOf(call), call),
    onEnd: resolve,
  })
  try {
    await endOfLoad(promise, (schedule.dueMs.at(-1) ?? 0) + timeoutMs, opened)
  } finally {
    ticker.stop()
  }
  const { user, system } = process.cpuUsage(cpuBefore)
  const seconds = (performance.now() - startedMs) / 1000
  const loadLateP99Ms = percentile(pacer.latenessesMs(), 0.99)
  return {
    calls,
    failed,
    seconds,
    latenciesMs: pacer.latenciesMs(),
    loadCpuMicros: user + system,
    loadLateP99Ms,
  }
}
