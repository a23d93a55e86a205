import { createBackoff } from '@tollway/chassis/backoff.ts'

/** Runs one reconcile function whenever something may have changed. */
export interface Runner {
  /** Something may have changed. Many calls before the next run are one run. */
  trigger(): void
  /** No run begins any more; resolves when the running one has ended. */
  stop(): Promise<void>
}

export interface RunnerOptions {
  /** Level-based: looks at what there is, and may be run at any time. A rejection means: again, later. */
  readonly reconcile: () => Promise<void>
  readonly onError: (error: unknown, retryMs: number) => void
  /** Uniform in [0, 1). */
  readonly random: () => number
}

/** The waits between runs that fail one after the other. */
const retries = { initialMs: 100, maxMs: 30_000, factor: 2, jitter: 0.5 } as const

/**
 * Never two runs at a time; a failed one is repeated with growing waits, or at once when something changes.
 */
export function createRunner(options: RunnerOptions): Runner {
  const backoff = createBackoff({ ...retries, random: options.random })
  let wanted = false
  let stopped = false
  let retry: NodeJS.Timeout | undefined
  let running: Promise<void> | undefined

  async function run(): Promise<void> {
    // What else is triggered in this turn is part of the same run.
    await Promise.resolve()
    while (wanted && !stopped) {
      wanted = false
      clearTimeout(retry)
      try {
        await options.reconcile()
        backoff.reset()
      } catch (error) {
        const retryMs = backoff.nextMs()
        retry = setTimeout(trigger, retryMs)
        options.onError(error, retryMs)
      }
    }
    // In the same breath as the last look at `wanted`, so that no trigger falls in between.
    running = undefined
  }

  function trigger(): void {
    if (stopped) return
    wanted = true
    running ??= run()
  }

  return {
    trigger,
    async stop() {
      stopped = true
      await running
      clearTimeout(retry)
    },
  }
}
