import { type Backoff, createBackoff } from '@tollway/chassis/backoff.ts'

/**
 * What a run reports: `done` if no work is left, or the time after which the next run is due without an
 * `add`.
 */
export type ReconcileOutcome = 'done' | { readonly afterMs: number }

interface WorkQueueOptions {
  /**
   * Compares the present state of a key with the desired one, so it may run at any time. When it rejects, it
   * is called again after a growing wait, plus the error's `retryAfterMs`.
   */
  readonly reconcile: (key: string) => Promise<ReconcileOutcome>
  /**
   * The highest number of simultaneous runs. A run that fails with the reason `Timeout` halves the number,
   * and successes restore it gradually, because a server that is too slow for many requests at once completes
   * none of them.
   */
  readonly concurrency: number
  readonly onError: (key: string, error: unknown, retryMs: number) => void
  readonly random: () => number
  readonly retries?: RetryWaits
}

export interface RetryWaits {
  readonly initialMs: number
  readonly maxMs: number
}

/** The waits between failed runs of a key grow between these bounds. Half of each is random. */
const defaultRetries: RetryWaits = { initialMs: 100, maxMs: 8_000 }

/** The longest delay of Node's timers. */
const longestTimerMs = 2 ** 31 - 1

/** The state of a key that waits or runs. An idle key has no state. */
interface KeyState {
  queued: boolean
  running: boolean
  /** Enqueues the key when its wait is over. */
  timer: NodeJS.Timeout | undefined
  /** Whether the API server requested the wait (Retry-After). Then `add` does not shorten it. */
  held: boolean
  /** Set from the first failure to the next success. */
  backoff: Backoff | undefined
}

/** A queue of keys to reconcile. At most one run of a key is active at a time. */
export class WorkQueue {
  readonly #options: WorkQueueOptions
  readonly #keys = new Map<string, KeyState>()
  /** The keys that wait for a worker, in the order in which they became due. */
  readonly #due = new Set<string>()
  readonly #running = new Set<Promise<void>>()
  /** The number of runs that may be active at the same time now, at least 1. */
  #allowed: number
  #stopped = false

  constructor(options: WorkQueueOptions) {
    this.#options = options
    this.#allowed = options.concurrency
  }

  /**
   * Enqueues the key, because something about it may have changed. Many calls before its next run cause one
   * run. A run that failed with `retryAfterMs` is repeated only after that time.
   */
  add(key: string): void {
    if (this.#stopped) return
    const state = this.#getOrAddState(key)
    if (state.held) return
    state.queued = true
    clearTimeout(state.timer)
    state.timer = undefined
    if (state.running) return
    this.#due.add(key)
    this.#startDue()
  }

  waiting(): number {
    return this.#due.size
  }

  /** Starts no more runs. Resolves when the active runs have ended. */
  async stop(): Promise<void> {
    this.#stopped = true
    this.#due.clear()
    for (const { timer } of this.#keys.values()) clearTimeout(timer)
    await Promise.all(this.#running)
  }

  #getOrAddState(key: string): KeyState {
    let state = this.#keys.get(key)
    if (state === undefined) {
      state = { queued: false, running: false, timer: undefined, held: false, backoff: undefined }
      this.#keys.set(key, state)
    }
    return state
  }

  #startDue(): void {
    for (const key of this.#due) {
      if (this.#stopped || this.#running.size >= Math.floor(this.#allowed)) return
      this.#due.delete(key)
      const run = this.#run(key).finally(() => {
        this.#running.delete(run)
        this.#startDue()
      })
      this.#running.add(run)
    }
  }

  async #run(key: string): Promise<void> {
    const state = this.#getOrAddState(key)
    state.queued = false
    state.running = true
    const { waitMs, isHeld = false } = await this.#reconcile(key, state)
    state.running = false
    state.held = isHeld
    if (state.queued && !isHeld) this.#due.add(key)
    else if (waitMs === undefined) this.#keys.delete(key)
    else if (!this.#stopped)
      state.timer = setTimeout(() => this.#retry(key), Math.min(waitMs, longestTimerMs))
  }

  #retry(key: string): void {
    this.#getOrAddState(key).held = false
    this.add(key)
  }

  /** Resolves with the wait before the next run; undefined if only `add` requires another run. */
  async #reconcile(key: string, state: KeyState): Promise<{ waitMs?: number; isHeld?: boolean }> {
    try {
      // Calls of `add` in this turn of the event loop are covered by this run.
      await Promise.resolve()
      state.queued = false
      const outcome = await this.#options.reconcile(key)
      state.backoff = undefined
      this.#allowed = Math.min(this.#options.concurrency, this.#allowed + 1 / this.#allowed)
      return outcome === 'done' ? {} : { waitMs: outcome.afterMs }
    } catch (error) {
      const { random, retries = defaultRetries, onError } = this.#options
      state.backoff ??= createBackoff({ ...retries, factor: 2, jitter: 0.5, random })
      if (isTimeout(error)) this.#allowed = Math.max(1, this.#allowed / 2)
      const retryAfterMs = readRetryAfter(error)
      const waitMs = (retryAfterMs ?? 0) + state.backoff.nextMs()
      onError(key, error, waitMs)
      return { waitMs, isHeld: retryAfterMs !== undefined }
    }
  }
}

function isTimeout(error: unknown): boolean {
  return (error as { readonly reason?: unknown } | undefined)?.reason === 'Timeout'
}

/** Returns the wait that the rejecting server asks for, in milliseconds. */
function readRetryAfter(error: unknown): number | undefined {
  const { retryAfterMs } = (error ?? {}) as { readonly retryAfterMs?: unknown }
  return typeof retryAfterMs === 'number' ? retryAfterMs : undefined
}
