import type { LogFields } from '@tollway/chassis/log/log.ts'
import type { BackendStats } from '../backend-stats.ts'

/**
 * The circuit breaker of one connection. It protects only the latency: while it is open, `ServerConnection`
 * rejects calls at once instead of at their deadline. It opens when replies are due and the server has sent
 * nothing for `breakerSilenceMs`. It closes when the server sends anything, even a late reply or an error, or
 * when the session ends. It needs no probe: while it is open, a reply is always due.
 */
export interface CircuitBreaker {
  open(problem: string): void
  /** Does nothing when the breaker is closed. */
  close(cause: string): void
}

/** @param server the name and address of the server, for the log */
export type CreateBreaker = (server: string) => CircuitBreaker

/** A shorter silence is a normal pause of a server, such as for a fork or a slow command. */
const minSilenceMs = 100

/**
 * The silence in milliseconds after which a breaker opens. It is at least a call's deadline, because a server
 * that answers within the deadline is not late.
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

/**
 * Creates breakers that share the gauge `<prefix>.breaker_open`, the number of open breakers, and the counter
 * `<prefix>.breaker_opened`.
 */
export function createBreakers({ stats, prefix, onWarning }: BreakersOptions): CreateBreaker {
  const opened = stats.counter(`${prefix}.breaker_opened`)
  let openNow = 0
  stats.gauge(`${prefix}.breaker_open`, () => openNow)
  return server => {
    let isOpen = false
    return {
      open(problem) {
        isOpen = true
        openNow += 1
        opened.value += 1
        onWarning('open circuit breaker', { server, reason: problem })
      },
      close(cause) {
        if (!isOpen) return
        isOpen = false
        openNow -= 1
        onWarning('close circuit breaker', { server, reason: cause })
      },
    }
  }
}
