import type { Load, LoadConnection, LoadResult } from './load-connection.ts'
import { createRecorder } from './recorder.ts'

/** The end of a load: after a time, or after a number of calls. */
export type Extent = { readonly durationMs: number } | { readonly calls: number }

/** A load without answers fails this long after its expected end. */
const timeoutMs = 60_000

/**
 * Makes as many calls as the server accepts: each answer makes room for the next request. A latency is the
 * time from a request to its answer.
 *
 * @throws Error when a connection ends, or answers do not arrive
 */
export async function driveFlatOut(load: Load, extent: Extent): Promise<LoadResult> {
  const { connections, streams, bodyOf, open } = load
  const durationMs = 'durationMs' in extent ? extent.durationMs : Number.POSITIVE_INFINITY
  const maxCalls = 'calls' in extent ? extent.calls : Number.POSITIVE_INFINITY
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  const slots = connections * streams
  const sentMs = new Float64Array(slots)
  const latencies = createRecorder()
  let calls = 0
  let failed = 0
  let running = slots

  const listener = {
    answered(slot: number, ok: boolean) {
      const nowMs = performance.now()
      latencies.record(nowMs - (sentMs[slot] ?? 0))
      if (!ok) failed += 1
      next(slot, nowMs)
    },
    lost: (reason: string) => reject(new Error(`the load lost a connection: ${reason}`)),
  }
  const opened = await Promise.all(Array.from({ length: connections }, () => open(listener)))
  const startedMs = performance.now()
  const endMs = startedMs + durationMs

  function next(slot: number, nowMs: number): void {
    if (nowMs > endMs || calls >= maxCalls) {
      running -= 1
      if (running === 0) resolve()
      return
    }
    sentMs[slot] = nowMs
    opened[slot % connections]?.send(bodyOf(calls++), slot)
  }

  const cpuBefore = process.cpuUsage()
  for (let slot = 0; slot < slots; slot++) next(slot, startedMs)
  const wait = Number.isFinite(durationMs) ? durationMs : 0
  await endOfLoad(promise, wait + timeoutMs, opened)
  const { user, system } = process.cpuUsage(cpuBefore)
  const seconds = (performance.now() - startedMs) / 1000
  return { calls, failed, seconds, latenciesMs: latencies.values(), loadCpuMicros: user + system }
}

/** Waits for the last answer, up to a deadline, and closes the connections. */
export async function endOfLoad(
  ended: Promise<void>,
  deadlineMs: number,
  connections: readonly LoadConnection[],
): Promise<void> {
  const { promise: late, reject } = Promise.withResolvers<never>()
  const timer = setTimeout(reject, deadlineMs, new Error(`calls are not answered after ${deadlineMs} ms`))
  try {
    await Promise.race([ended, late])
  } finally {
    clearTimeout(timer)
    for (const connection of connections) connection.close()
  }
}
