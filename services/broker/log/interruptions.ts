import type { Clock } from '@tollway/chassis/clock.ts'
import type { AnimationIds } from '../wire/animation-ids.ts'
import { interruptedMs } from './stream-log.ts'

/** The requests whose pushes are rejected after an interruption. */
export interface Interruptions {
  add(streamId: string, requestId: string): void
  has(ids: AnimationIds): boolean
  /** Forgets expired interruptions. */
  sweep(): void
}

/** Beyond this number the oldest are forgotten. */
const maxInterruptions = 10_000

export function createInterruptions(clock: Pick<Clock, 'monotonicMs'>): Interruptions {
  /** The expiry of each, oldest first. */
  const until = new Map<string, number>()

  function sweep(): void {
    const nowMs = clock.monotonicMs()
    for (const [key, untilMs] of until) {
      if (untilMs > nowMs && until.size <= maxInterruptions) return
      until.delete(key)
    }
  }

  return {
    add(streamId, requestId) {
      const key = keyOf(streamId, requestId)
      until.delete(key)
      until.set(key, clock.monotonicMs() + interruptedMs)
      sweep()
    },
    has: ({ streamId, requestId }) => (until.get(keyOf(streamId, requestId)) ?? 0) > clock.monotonicMs(),
    sweep,
  }
}

const keyOf = (streamId: string, requestId: string) => JSON.stringify([streamId, requestId])
