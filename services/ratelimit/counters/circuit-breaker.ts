import type { Clock } from '@tollway/chassis/clock.ts'
import type { Counters, Hit } from './counters.ts'

/**
 * Spares callers the wait for a backend that does not answer: when nothing but failures came for a while, they
 * are to be told the last one's text at once. A probe of our own finds out when the backend is back, so that no
 * caller is the one who tries.
 */
export interface CircuitBreaker {
  /** Why the backend is not to be asked now: its last error. undefined when it is. */
  readonly problem: string | undefined
  /** The backend answered a call. */
  succeeded(): void
  /** It did not. */
  failed(error: Error): void
  /** Ends the probes. */
  close(): void
}

export interface CircuitBreakerOptions {
  readonly counters: Pick<Counters, 'add'>
  readonly clock: Clock
  /**
   * Told when the backend is not asked any more, with its last error, and when it has answered a call again: a
   * backend that can be looked at, but counts nothing, changes nothing.
   */
  readonly onChange: (problem: string | undefined) => void
}

export const circuitBreakerLimits = {
  /** So many failures in a row open it, */
  maxFailures: 10,
  /** and so does a row of two or more that lasts so long: with few callers ten would take too long. */
  maxFailingMs: 500,
  /** How often the backend is asked then whether it answers again. */
  probeMs: 200,
} as const

/** Adding 0 only looks: it creates no counter. */
const probe: readonly Hit[] = [{ key: 'tollway_probe', hits: 0, expirySeconds: 1, limit: 1 }]

export function createCircuitBreaker(options: CircuitBreakerOptions): CircuitBreaker {
  const { counters, clock, onChange } = options
  const { maxFailures, maxFailingMs, probeMs } = circuitBreakerLimits
  let failures = 0
  let failingSinceMs = 0
  let isTold = false
  let probing: NodeJS.Timeout | undefined
  // A field and not an accessor, with which V8 would keep the object as a hash table.
  const breaker: CircuitBreaker & { problem: string | undefined } = {
    problem: undefined,
    succeeded,
    failed,
    close: () => clearInterval(probing),
  }

  /** Callers may ask again. */
  function letThrough(): void {
    failures = 0
    clearInterval(probing)
    breaker.problem = undefined
  }

  function succeeded(): void {
    if (breaker.problem !== undefined) letThrough()
    failures = 0
    if (!isTold) return
    isTold = false
    onChange(undefined)
  }

  function failed({ message }: Error): void {
    if (breaker.problem !== undefined) {
      breaker.problem = message
      return
    }
    const nowMs = clock.monotonicMs()
    if (failures === 0) failingSinceMs = nowMs
    failures += 1
    const lasts = failures > 1 && nowMs - failingSinceMs >= maxFailingMs
    if (failures < maxFailures && !lasts) return
    breaker.problem = message
    probing = setInterval(look, probeMs)
    if (isTold) return
    isTold = true
    onChange(message)
  }

  async function look(): Promise<void> {
    try {
      await counters.add(probe)
      letThrough()
    } catch (error) {
      failed(error as Error)
    }
  }

  return breaker
}
