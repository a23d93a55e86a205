import type { LogFields } from '@tollway/chassis/log/log.ts'
import type { BackendStats } from '../backend-stats.ts'

/**
 * The circuit breaker of one connection. It guards latency only: while it is open, calls are rejected with
 * its problem at once instead of at their deadline. It opens when the server owes replies and has sent
 * nothing for `breakerSilenceMs`, and closes when the server sends anything: a late reply and an error reply
 * also show that the server is alive. It needs no probe, since an open breaker always waits for a reply that
 * is owed, or for a connection.
 */
export interface CircuitBreaker {
  /** Why calls are rejected; undefined while the breaker is closed. */
  readonly problem: string | undefined
  open(problem: string): void
  /** Does nothing when the breaker is closed. */
  close(cause: string): void
}

/** @param server the address of the connection, for the log */
export type CreateBreaker = (server: string) => CircuitBreaker

/** Shorter silences are normal pauses of a server, for a fork or a slow command. */
const minSilenceMs = 100

/**
 * The silence in milliseconds after which a breaker opens. It is not shorter than a call's deadline, since
 * the caller allows the server that long.
 */
export function breakerSilenceMs(deadlineMs: number): number {
  return Math.max(minSilenceMs, deadlineMs)
}

interface BreakersOptions {
  readonly stats: BackendStats
  /** The prefix of the statistics' names, such as `ratelimit.redis_pool`. */
  readonly prefix: string
  /** Called with a log line when a breaker opens or closes. */
  readonly onWarning: (message: string, fields: LogFields) => void
}

/** Breakers that share the gauge `<prefix>.breaker_open` and the counter `<prefix>.breaker_opened`. */
export function createBreakers({ stats, prefix, onWarning }: BreakersOptions): CreateBreaker {
  const opened = stats.counter(`${prefix}.breaker_opened`)
  let openNow = 0
  stats.gauge(`${prefix}.breaker_open`, () => openNow)
  return server => {
    // A field and not an accessor, with which V8 would keep the object as a hash table.
    const breaker: CircuitBreaker & { problem: string | undefined } = {
      problem: undefined,
      open(problem) {
        breaker.problem = problem
        openNow += 1
        opened.value += 1
        onWarning('open circuit breaker', { server, reason: problem })
      },
      close(cause) {
        if (breaker.problem === undefined) return
        breaker.problem = undefined
        openNow -= 1
        onWarning('close circuit breaker', { server, reason: cause })
      },
    }
    return breaker
  }
}
