import { createBackoff } from '@tollway/chassis/backoff.ts'

/** Runs one reconcile function whenever something may have changed. */
export type Runner = ReturnType<typeof createRunner>

interface RunnerOptions {
  /**
   * Compares the present state with the desired one, so it may run at any time. When it rejects, it is called
   * again later.
   */
  readonly reconcile: () => Promise<void>
  readonly onError: (error: unknown, retryMs: number) => void
  readonly random: () => number
  readonly rest?: RunnerCooldown
}

/**
 * The rest after each run, in which changes gather. The rest grows with the time that the run kept the event
 * loop busy, so a stream of changes takes a bounded share of the event loop. A single change after a quiet
 * time does not wait.
 */
interface RunnerCooldown {
  /** The length of the rest, as a multiple of the time for which the run kept the event loop busy. */
  readonly factor: number
  readonly shortestMs: number
  readonly longestMs: number
  /**
   * The total rest that runs may skip. One change causes several runs, by acknowledgements and status
   * changes; the next change after a quiet time must not wait for the rests after those runs.
   */
  readonly owedMs: number
}

const defaultRest: RunnerCooldown = { factor: 3, shortestMs: 10, longestMs: 1_000, owedMs: 300 }

const retries = { initialMs: 100, maxMs: 30_000, factor: 2, jitter: 0.5 } as const

/**
 * Creates a runner with at most one active run. A failed run is repeated after a growing wait, or as soon as
 * `trigger` is called.
 */
export function createRunner(options: RunnerOptions) {
  const { factor, shortestMs, longestMs, owedMs } = options.rest ?? defaultRest
  const backoff = createBackoff({ ...retries, random: options.random })
  let wanted = false
  let stopped = false
  let retry: NodeJS.Timeout | undefined
  let later: NodeJS.Timeout | undefined
  let running: Promise<void> | undefined
  /** The time, by `performance.now()`, at which the rests after all runs so far would be over. */
  let restedMs = 0
  /** Ends the rest when the runner is stopped. */
  let endRest = () => {}

  async function run(): Promise<void> {
    // Calls of `trigger` in this turn of the event loop are covered by this run.
    await Promise.resolve()
    while (wanted && !stopped) {
      wanted = false
      clearTimeout(retry)
      const begin = performance.eventLoopUtilization()
      try {
        await options.reconcile()
        backoff.reset()
      } catch (error) {
        const retryMs = backoff.nextMs()
        retry = setTimeout(trigger, retryMs)
        options.onError(error, retryMs)
      }
      const busyMs = performance.eventLoopUtilization(begin).active
      await rest(restAfter(busyMs))
    }
    // No other code runs between the last check of `wanted` and this line, so no trigger is lost.
    running = undefined
  }

  function restAfter(busyMs: number): number {
    const nowMs = performance.now()
    restedMs = Math.min(Math.max(restedMs, nowMs) + factor * busyMs, nowMs + owedMs + longestMs)
    return Math.max(shortestMs, restedMs - nowMs - owedMs)
  }

  async function rest(ms: number): Promise<void> {
    if (stopped || ms === 0) return
    const { promise, resolve } = Promise.withResolvers<void>()
    const timer = setTimeout(resolve, ms)
    endRest = resolve
    await promise
    clearTimeout(timer)
  }

  function trigger(): void {
    if (stopped) return
    wanted = true
    running ??= run()
  }

  return {
    /** Requests a run, because something may have changed. Many calls before the next run cause one run. */
    trigger,
    /** Requests a run after this time. Replaces the request of an earlier call. */
    triggerAfter(ms: number): void {
      clearTimeout(later)
      if (!stopped) later = setTimeout(trigger, ms)
    },
    /** Starts no more runs. Resolves when the active run has ended. */
    async stop(): Promise<void> {
      stopped = true
      clearTimeout(later)
      endRest()
      await running
      clearTimeout(retry)
    },
  }
}
