import { type Backoff, createBackoff } from '@tollway/chassis/backoff.ts'

/** A queue of keys to reconcile: each key is processed by one worker at a time. */
export interface WorkQueue {
  /**
   * Something about the key may have changed. Many calls before its next run are one run. A run that failed
   * with `retryAfterMs` is repeated only after that time.
   */
  add(key: string): void
  /** How many keys wait for a worker, not counting those that wait for their time. */
  waiting(): number
  /** No run begins any more; resolves when the running ones have ended. */
  stop(): Promise<void>
}

/** `done`: no work is left. `afterMs`: another run is due after this time, even without an event. */
export type Outcome = 'done' | { readonly afterMs: number }

export interface WorkQueueOptions {
  /**
   * Level-based: compares the present state, and may run at any time. A rejection is retried later, not
   * before its `retryAfterMs`, if it has one.
   */
  readonly reconcile: (key: string) => Promise<Outcome>
  /**
   * The most runs at a time. A run that fails with the reason `Timeout` halves the number, and successes
   * restore it gradually: a server that is too slow for many requests at once never completes any of them.
   */
  readonly concurrency: number
  readonly onError: (key: string, error: unknown, retryMs: number) => void
  /** Uniform in [0, 1). */
  readonly random: () => number
  readonly retries?: RetryWaits
}

export interface RetryWaits {
  readonly initialMs: number
  readonly maxMs: number
}

/** The waits between runs of a key that fail one after the other. Half of each is drawn by chance. */
export const defaultRetries: RetryWaits = { initialMs: 100, maxMs: 8_000 }

/** What Node's timers can count. */
const longestTimerMs = 2 ** 31 - 1

/** The state of a key that waits or runs; no state is kept of idle keys. */
interface KeyState {
  queued: boolean
  running: boolean
  /** Runs it when its time has come. */
  timer: NodeJS.Timeout | undefined
  /** The API server asked for the wait (Retry-After): no change makes it shorter. */
  held: boolean
  /** There from the first failure to the next success. */
  backoff: Backoff | undefined
}

export function createWorkQueue(options: WorkQueueOptions): WorkQueue {
  const { reconcile, concurrency, onError, random, retries = defaultRetries } = options
  const keys = new Map<string, KeyState>()
  /** In the order in which they became due. */
  const due = new Set<string>()
  const running = new Set<Promise<void>>()
  /** The runs that may be active at the same time now, at least 1. */
  let allowed = concurrency
  let stopped = false

  function stateOf(key: string): KeyState {
    let state = keys.get(key)
    if (state === undefined) {
      state = { queued: false, running: false, timer: undefined, held: false, backoff: undefined }
      keys.set(key, state)
    }
    return state
  }

  function add(key: string): void {
    if (stopped) return
    const state = stateOf(key)
    if (state.held) return
    state.queued = true
    clearTimeout(state.timer)
    state.timer = undefined
    if (state.running) return
    due.add(key)
    startDue()
  }

  function startDue(): void {
    for (const key of due) {
      if (stopped || running.size >= Math.floor(allowed)) return
      due.delete(key)
      const run = work(key).finally(() => {
        running.delete(run)
        startDue()
      })
      running.add(run)
    }
  }

  async function work(key: string): Promise<void> {
    const state = stateOf(key)
    state.queued = false
    state.running = true
    const { waitMs, isHeld = false } = await outcomeOf(key, state)
    state.running = false
    state.held = isHeld
    if (state.queued && !isHeld) due.add(key)
    else if (waitMs === undefined) keys.delete(key)
    else if (!stopped) state.timer = setTimeout(runNow, Math.min(waitMs, longestTimerMs), key)
  }

  function runNow(key: string): void {
    stateOf(key).held = false
    add(key)
  }

  /** The wait before the next run; none when only a change makes a run necessary. */
  async function outcomeOf(key: string, state: KeyState): Promise<{ waitMs?: number; isHeld?: boolean }> {
    try {
      // What else is added in this turn is part of this run.
      await Promise.resolve()
      state.queued = false
      const outcome = await reconcile(key)
      state.backoff = undefined
      allowed = Math.min(concurrency, allowed + 1 / allowed)
      return outcome === 'done' ? {} : { waitMs: outcome.afterMs }
    } catch (error) {
      state.backoff ??= createBackoff({ ...retries, factor: 2, jitter: 0.5, random })
      if (isTimeout(error)) allowed = Math.max(1, allowed / 2)
      const retryAfterMs = retryAfterOf(error)
      const waitMs = (retryAfterMs ?? 0) + state.backoff.nextMs()
      onError(key, error, waitMs)
      return { waitMs, isHeld: retryAfterMs !== undefined }
    }
  }

  return {
    add,
    waiting: () => due.size,
    async stop() {
      stopped = true
      due.clear()
      for (const { timer } of keys.values()) clearTimeout(timer)
      await Promise.all(running)
    },
  }
}

function isTimeout(error: unknown): boolean {
  return (error as { readonly reason?: unknown } | undefined)?.reason === 'Timeout'
}

/** How long the one who refused asks to be left alone. */
function retryAfterOf(error: unknown): number | undefined {
  const { retryAfterMs } = (error ?? {}) as { readonly retryAfterMs?: unknown }
  return typeof retryAfterMs === 'number' ? retryAfterMs : undefined
}
