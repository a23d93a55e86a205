import type { Ring } from '../ring.ts'
import type { RingCursor } from '../stream-log.ts'
import type { RedisLogSetup } from './setup.ts'

/** Holds a producer that waits: a cursor in its ring for each other broker, at the slowest reader there. */
export interface RemoteReaders {
  /** The slowest reader of a broker is at this position; undefined when it has none any more. */
  heard(podId: string, position: number | undefined): void
  /** Those of which nothing was heard for too long no longer count. */
  dropVanished(): void
  /** Nothing could be heard: they have their time again. */
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
