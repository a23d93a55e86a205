import { type Backoff, createBackoff } from '@tollway/chassis/backoff.ts'
import { type Clock, systemClock } from '@tollway/chassis/clock.ts'

interface RefreshOptions {
  /** The promise must not reject. */
  readonly refresh: () => Promise<void>
  /** Returns true if the next refresh may wait for `everyMs`, and false if it is urgent. */
  readonly isSettled: () => boolean
  readonly everyMs: number
  /** The first delay while `isSettled` returns false, and after `refreshSoon`. */
  readonly urgentMs: number
  /** The delays begin with `urgentMs` and grow to this one. Defaults to `urgentMs`. */
  readonly maxUrgentMs?: number
  readonly random: () => number
  readonly clock?: Clock
}

/** Each delay is shortened by up to this share, so that the refreshes of several processes spread. */
const jitter = 0.5

/** Repeats a task, never twice at once, and earlier on request; first in the next turn of the event loop. */
export class RefreshSchedule {
  readonly #options: RefreshOptions
  readonly #clock: Clock
  readonly #urgentBackoff: Backoff
  #timer: NodeJS.Timeout | undefined
  #plannedMs = Number.POSITIVE_INFINITY
  #running = false
  #wanted = false
  #closed = false

  constructor(options: RefreshOptions) {
    const { urgentMs, maxUrgentMs = urgentMs, random, clock = systemClock } = options
    this.#options = options
    this.#clock = clock
    this.#urgentBackoff = createBackoff({
      initialMs: urgentMs,
      maxMs: maxUrgentMs,
      factor: 1.5,
      jitter,
      random,
    })
    this.#plan(0)
  }

  /**
   * Requests a refresh. The first call after a quiet period refreshes within `urgentMs`. If it is called
   * again after each refresh, the delays grow to `maxUrgentMs`, so that constant changes do not cause
   * constant refreshes.
   */
  refreshSoon(): void {
    if (this.#wanted) return
    this.#wanted = true
    if (!this.#running) this.#plan(this.#urgentBackoff.nextMs())
  }

  close(): void {
    this.#closed = true
    clearTimeout(this.#timer)
  }

  #plan(waitMs: number): void {
    if (this.#running || this.#closed) return
    const atMs = this.#clock.monotonicMs() + waitMs
    if (atMs >= this.#plannedMs) return
    this.#plannedMs = atMs
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => void this.#run(), waitMs)
  }

  async #run(): Promise<void> {
    const { refresh, isSettled, everyMs, random } = this.#options
    this.#running = true
    const wasWanted = this.#wanted
    this.#wanted = false
    await refresh()
    this.#running = false
    this.#plannedMs = Number.POSITIVE_INFINITY
    if (isSettled() && !wasWanted && !this.#wanted) this.#urgentBackoff.reset()
    const mayWait = isSettled() && !this.#wanted
    this.#plan(mayWait ? everyMs * (1 - jitter * random()) : this.#urgentBackoff.nextMs())
  }
}
