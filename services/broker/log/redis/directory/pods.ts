import { heartbeatScript } from '../scripts.ts'
import type { RedisLogSetup } from '../setup.ts'

/** Sends the heartbeat of this broker, and detects lost brokers. */
export interface Pods {
  /**
   * Sends the heartbeat, and reads those of the other brokers. Returns how long each was silent, in
   * milliseconds.
   */
  beat(others: ReadonlySet<string>): Promise<ReadonlyMap<string, number>>
  /** This broker could not read heartbeats for a while: all timeouts start again. */
  resetDeadlines(): void
  /** Removes the heartbeat. */
  leave(): Promise<void>
}

/**
 * The expiry of a heartbeat as a multiple of the timeout for lost brokers; it removes heartbeats that no
 * broker reads.
 */
const expiryFactor = 3

/**
 * A heartbeat is an increasing counter. The reader measures its silence with its own clock, and only over
 * reads that Redis has answered: neither a different clock nor an unavailable Redis makes a broker seem lost.
 */
export function createPods(setup: RedisLogSetup): Pods {
  const { podId, keys, commands, clock, timings } = setup
  const seen = new Map<string, { readonly count: string; readonly sinceMs: number }>()
  const expiryMs = timings.lostMs * expiryFactor
  let count = 0
  let checkedMs = 0

  async function show(): Promise<void> {
    count += 1
    const names = [keys.heartbeat(podId), keys.inbox(podId)]
    await commands.call('EVAL', heartbeatScript, names.length, ...names, count, expiryMs)
  }

  async function silenceOf(other: string): Promise<number> {
    const found = String(await commands.call('GET', keys.heartbeat(other)))
    const last = seen.get(other)
    const nowMs = clock.monotonicMs()
    if (last !== undefined && last.count === found) return nowMs - last.sinceMs
    seen.set(other, { count: found, sinceMs: nowMs })
    return 0
  }

  return {
    async beat(others) {
      await show()
      // A process that was paused may have read the heartbeats before the others were paused too.
      if (clock.monotonicMs() - checkedMs > timings.lostMs / 2) seen.clear()
      checkedMs = clock.monotonicMs()
      for (const other of seen.keys()) if (!others.has(other)) seen.delete(other)
      return new Map(
        await Promise.all([...others].map(async other => [other, await silenceOf(other)] as const)),
      )
    },
    resetDeadlines: () => seen.clear(),
    async leave() {
      await commands.call('DEL', keys.heartbeat(podId), keys.inbox(podId))
    },
  }
}
