import type { Ring } from '../../ring.ts'
import type { RingCursor } from '../../stream-log.ts'
import type { RedisLogSetup } from '../setup.ts'

/**
 * Makes a producer wait for remote readers: a cursor in its ring for each other broker, at the position of
 * the slowest reader there.
 */
export interface RemoteReaders {
  /** The position of the slowest reader of a broker; undefined if it has none any more. */
  heard(podId: string, position: number | undefined): void
  /** Removes brokers without a report for too long. */
  dropVanished(): void
  /** This broker could not read reports: all timeouts start again. */
  resetDeadlines(): void
  clear(): void
}

export function createRemoteReaders({ clock, timings }: RedisLogSetup, ring: Ring): RemoteReaders {
  const pods = new Map<string, { readonly cursor: RingCursor; heardMs: number }>()

  function drop(podId: string): void {
    pods.get(podId)?.cursor.close()
    pods.delete(podId)
  }

  return {
    heard(podId: string, position: number | undefined): void {
      if (position === undefined || ring.end !== undefined) {
        drop(podId)
        return
      }
      const heardMs = clock.monotonicMs()
      const pod = pods.get(podId) ?? { cursor: ring.read({ onNews() {} }), heardMs }
      pods.set(podId, pod)
      pod.heardMs = heardMs
      pod.cursor.seek(position)
    },
    dropVanished(): void {
      const beforeMs = clock.monotonicMs() - timings.lostMs
      for (const [podId, { heardMs }] of pods) if (heardMs < beforeMs) drop(podId)
    },
    resetDeadlines(): void {
      for (const pod of pods.values()) pod.heardMs = clock.monotonicMs()
    },
    clear(): void {
      for (const podId of [...pods.keys()]) drop(podId)
    },
  }
}
