import type { CircuitBreaker } from '../counters/circuit-breaker.ts'
import { type Counters, CountersError, type Hit, maxCount } from '../counters/counters.ts'

/** What a call gets whose hits could not be counted: an error, or a decision without the backend. */
export type FailureMode = 'error' | 'allow' | 'deny' | 'local'

/** Counts hits, and says what holds where the backend fails. */
export interface Counting {
  /** As `Counters.add`. Rejects only when failures are errors. */
  add(batch: readonly Hit[]): readonly number[] | Promise<readonly number[]>
}

export interface CountingOptions {
  readonly counters: Pick<Counters, 'add'>
  readonly breaker: CircuitBreaker
  readonly mode: FailureMode
  /** Counts in this process alone; for the mode `local`. */
  readonly local: Pick<Counters, 'add'>
  /** What of each limit this process may let through alone, above 0 to 1; for the mode `local`. */
  readonly localShare: number
  /** Called once for each call whose hits could not be counted. */
  readonly onFailure: () => void
}

export function createCounting(options: CountingOptions): Counting {
  const { counters, breaker, mode, local, localShare, onFailure } = options

  function withoutBackend(
    error: unknown,
    batch: readonly Hit[],
  ): readonly number[] | Promise<readonly number[]> {
    onFailure()
    if (mode === 'allow') return batch.map(() => 0)
    if (mode === 'deny') return batch.map(() => maxCount)
    if (mode === 'error') return Promise.reject(error)
    // Each hit here stands for those that the other processes let through meanwhile.
    const scaled = (values: readonly number[]) => values.map(value => Math.ceil(value / localShare))
    const values = local.add(batch)
    return values instanceof Promise ? values.then(scaled) : scaled(values)
  }

  return {
    add(batch) {
      if (breaker.problem !== undefined) return withoutBackend(new CountersError(breaker.problem), batch)
      const values = counters.add(batch)
      if (!(values instanceof Promise)) return values
      return values.then(
        later => {
          breaker.succeeded()
          return later
        },
        (error: Error) => {
          breaker.failed(error)
          return withoutBackend(error, batch)
        },
      )
    },
  }
}
