import { heartbeatScript } from './scripts.ts'
import type { RedisLogSetup } from './setup.ts'

/** Shows the others that this broker lives, and finds out which of them do not. */
export interface Pods {
  /**
   * Shows it, and reads the heartbeats of those brokers. Answers for how long each was silent, in
   * milliseconds.
   */
  beat(others: ReadonlySet<string>): Promise<ReadonlyMap<string, number>>
  /** This broker could not look for a while: whose heartbeat it has not seen has its time again. */
  resetDeadlines(): void
  /** Takes away what shows it. */
  leave(): Promise<void>
}

/** A heartbeat stays so many times as long as it takes to be lost, so that it goes when nobody looks. */
const expiryFactor = 3

/**
 * A heartbeat is a number that counts up. Whether it does is judged by the looker's own clock and by the
 * looks that Redis has answered: neither a clock that differs nor a Redis that was away makes a broker look
 * lost.
 */
export function createPods(setup: RedisLogSetup): Pods {
  const { podId, keys, commands, clock, timings } = setup
  const seen = new Map<string, { readonly count: string; readonly sinceMs: number }>()
  const expiryMs = timings.lostMs * expiryFactor
  let count = 0
  let lookedMs = 0

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
      // A process that was stopped may have looked last before the others were stopped too.
      if (clock.monotonicMs() - lookedMs > timings.lostMs / 2) seen.clear()
      lookedMs = clock.monotonicMs()
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
