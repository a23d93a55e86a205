import { endOfLoad } from './flat-out.ts'
import type { Load, LoadResult } from './load-connection.ts'
import { createPacer, type Pacer } from './pacer.ts'
import { startTicker } from './ticker.ts'

/** Between two looks at what is due. A look wakes two threads, so that shorter ones would fill the core. */
const tickMs = 0.25
const patienceMs = 20_000

/**
 * Calls at a constant rate, for so long. A latency is the time from when the call was to be sent, which is
 * before it was sent when the server or this process was late.
 *
 * @throws Error when a connection ends, or answers do not come.
 */
export async function driveAtRate(
  load: Load,
  callsPerSecond: number,
  durationMs: number,
): Promise<LoadResult> {
  const { connections, streams, bodyOf, open } = load
  const calls = Math.max(1, Math.floor((callsPerSecond * durationMs) / 1000))
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
  const ticker = await startTicker(tickMs, () => pacer?.tick())
  const cpuBefore = process.cpuUsage()
  const startedMs = performance.now()
  pacer = createPacer({
    callsPerSecond,
    calls,
    connections,
    streams,
    nowMs: () => performance.now(),
    send: (connection, call) => opened[connection]?.send(bodyOf(call), call),
    onEnd: resolve,
  })
  try {
    await endOfLoad(promise, durationMs + patienceMs, opened)
  } finally {
    ticker.stop()
  }
  const { user, system } = process.cpuUsage(cpuBefore)
  const seconds = (performance.now() - startedMs) / 1000
  return { calls, failed, seconds, latenciesMs: pacer.latenciesMs(), loadCpuMicros: user + system }
}
