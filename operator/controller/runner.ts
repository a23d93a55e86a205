import { createBackoff } from '@tollway/chassis/backoff.ts'

/** Runs one reconcile function whenever something may have changed. */
export type Runner = ReturnType<typeof createRunner>

interface RunnerOptions {
  /** Level-based: compares the present state, and may run at any time. A rejection is retried later. */
  readonly reconcile: () => Promise<void>
  readonly onError: (error: unknown, retryMs: number) => void
  /** Uniform in [0, 1). */
  readonly random: () => number
  readonly rest?: RunnerCooldown
}

/**
 * The rest after each run, in which changes gather. It grows with the work of the run, so that a stream of
 * changes costs a bounded share of the event loop, and a single change after a quiet time waits for nothing.
 */
export interface RunnerCooldown {
  /** The length of the rest, as a multiple of the time in which the event loop was busy during the run. */
  readonly factor: number
  readonly shortestMs: number
  readonly longestMs: number
  /**
   * The rest that runs may owe before they wait for it. One change leads to several runs, by its
   * acknowledgements and its status; the next change after a quiet time must not wait for their rest.
   */
  readonly owedMs: number
}

const defaultRest: RunnerCooldown = { factor: 3, shortestMs: 10, longestMs: 1_000, owedMs: 300 }

/** The waits between runs that fail one after the other. */
const retries = { initialMs: 100, maxMs: 30_000, factor: 2, jitter: 0.5 } as const

/**
 * Creates a runner with one run at a time. A failed run is repeated with growing waits, or sooner when
 * something changes.
 */
export function createRunner(options: RunnerOptions) {
  const { factor, shortestMs, longestMs, owedMs } = options.rest ?? defaultRest
  const backoff = createBackoff({ ...retries, random: options.random })
  let wanted = false
  let stopped = false
  let retry: NodeJS.Timeout | undefined
  let later: NodeJS.Timeout | undefined
  let running: Promise<void> | undefined
  /** The time at which the rests of all runs so far are over. */
  let restedMs = 0
  /** Ends the rest when the runner is stopped. */
  let endRest = () => {}

  async function run(): Promise<void> {
    // Triggers in this turn of the event loop are part of the same run.
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
    // Synchronous with the last check of `wanted`, so that no trigger is lost in between.
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
    /** Requests a run, because something may have changed. Many calls before the next run are one run. */
    trigger,
    /** Requests a run after this time, instead of the time of an earlier call. */
    triggerAfter(ms: number): void {
      clearTimeout(later)
      if (!stopped) later = setTimeout(trigger, ms)
    },
    /** Begins no more runs. Resolves when the running one has ended. */
    async stop(): Promise<void> {
      stopped = true
      clearTimeout(later)
      endRest()
      await running
      clearTimeout(retry)
    },
  }
}
