import type { Clock } from '@tollway/chassis/clock.ts'

/** Detects that a backend answers all calls with errors. */
export interface ErrorWatch {
  /** Records a call that was counted. */
  succeeded(): void
  /** Records a call that was not counted. */
  failed(error: Error): void
  /** The last error while all calls fail; empty otherwise. */
  readonly problem: string
  /** Adds a listener that is called when `problem` becomes empty or stops being empty. */
  onChange(listener: () => void): void
}

export const errorWatchLimits = {
  /** All calls fail when this many failed in a row */
  failures: 10,
  /** over at least this time. */
  failingMs: 3_000,
  /**
   * After this time without a call, the problem is cleared, or an instance would never get a call to recover
   * with.
   */
  idleMs: 10_000,
} as const

export function createErrorWatch(clock: Clock): ErrorWatch {
  const { failures: maxFailures, failingMs, idleMs } = errorWatchLimits
  const listeners: (() => void)[] = []
  let failures = 0
  let firstMs = 0
  let lastMs = 0
  let timer: NodeJS.Timeout | undefined
  // A field and not an accessor, with which V8 would keep the object as a hash table.
  const watch: ErrorWatch & { problem: string } = {
    problem: '',
    succeeded() {
      failures = 0
      if (watch.problem !== '') change('')
    },
    failed({ message }) {
      lastMs = clock.monotonicMs()
      if (failures === 0) firstMs = lastMs
      failures += 1
      if (watch.problem !== '') watch.problem = message
      else if (failures >= maxFailures && lastMs - firstMs >= failingMs) change(message)
    },
    onChange: listener => listeners.push(listener),
  }

  function change(problem: string): void {
    watch.problem = problem
    clearTimeout(timer)
    if (problem !== '') awaitIdle(idleMs)
    for (const listener of listeners) listener()
  }

  function awaitIdle(waitMs: number): void {
    timer = setTimeout(() => {
      const leftMs = lastMs + idleMs - clock.monotonicMs()
      if (leftMs > 0) awaitIdle(leftMs)
      else watch.succeeded()
    }, waitMs)
    timer.unref()
  }

  return watch
}
