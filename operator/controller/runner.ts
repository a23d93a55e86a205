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

/**
 * Never two runs at a time; a failed one is repeated with growing waits, or at once when something changes.
 */
export function createRunner(options: RunnerOptions): Runner {
  const backoff = createBackoff({
    initialMs: 100,
    maxMs: 30_000,
    factor: 2,
    jitter: 0.5,
    random: options.random,
  })
  let wanted = false
  let stopped = false
  let retry: NodeJS.Timeout | undefined
  let running: Promise<void> | undefined

  async function run(): Promise<void> {
    while (wanted && !stopped) {
      wanted = false
      clearTimeout(retry)
      try {
        await options.reconcile()
        backoff.reset()
      } catch (error) {
        const retryMs = backoff.nextMs()
        options.onError(error, retryMs)
        retry = setTimeout(trigger, retryMs)
      }
    }
  }

  function trigger(): void {
    if (stopped) return
    wanted = true
    running ??= Promise.resolve()
      .then(run)
      .finally(() => {
        running = undefined
      })
  }

  return {
    trigger,
    async stop() {
      stopped = true
      clearTimeout(retry)
      await running
    },
  }
}
