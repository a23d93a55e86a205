import type { Clock } from '@tollway/chassis/clock.ts'
import type { AnimationIds } from '../wire/animation-ids.ts'
import { interruptedMs } from './stream-log.ts'

/** The maximum number of interruptions; the oldest are forgotten first. */
const maxInterruptions = 10_000

/** The requests whose pushes are rejected after an interruption. */
export class Interruptions {
  readonly #clock: Pick<Clock, 'monotonicMs'>
  /** The expiry of each, oldest first. */
  readonly #until = new Map<string, number>()

  constructor(clock: Pick<Clock, 'monotonicMs'>) {
    this.#clock = clock
  }

  add(streamId: string, requestId: string): void {
    const key = keyOf(streamId, requestId)
    this.#until.delete(key)
    this.#until.set(key, this.#clock.monotonicMs() + interruptedMs)
    this.sweep()
  }

  has({ streamId, requestId }: AnimationIds): boolean {
    return (this.#until.get(keyOf(streamId, requestId)) ?? 0) > this.#clock.monotonicMs()
  }

  /** Forgets expired interruptions. */
  sweep(): void {
    const nowMs = this.#clock.monotonicMs()
    for (const [key, untilMs] of this.#until) {
      if (untilMs > nowMs && this.#until.size <= maxInterruptions) return
      this.#until.delete(key)
    }
  }
}

const keyOf = (streamId: string, requestId: string) => JSON.stringify([streamId, requestId])
