import { type Clock, systemClock } from '@tollway/chassis/clock.ts'

/**
 * Keeps the event loop turning while an early answer is expected. A process that sleeps wakes tens of
 * microseconds late, and sleeping and waking cost about as much CPU time as a few polls. With the busy poll,
 * one call at a time over loopback takes 0.27 ms instead of 0.35 ms, for the same CPU time.
 */
export interface BusyPoll {
  /**
   * Polls for the answers to `requests` requests if they are few, the last writes followed each other
   * closely, and the rest after the last poll is over. The event loop serves all other events meanwhile.
   */
  begin(requests: number): void
}

/** `auto` polls as described below; `off` never polls. */
export type BusyPollMode = 'auto' | 'off'

interface BusyPollOptions {
  /** Defaults to `auto`. */
  readonly mode?: BusyPollMode | undefined
  /** Returns true when no request waits for its answer any more. */
  readonly isOver: () => boolean
  readonly clock?: Clock
  /** Calls back in the next turn of the event loop, which must not sleep before. */
  readonly inNextTurn?: (callback: () => void) => void
}

/**
 * A write of more requests carries many calls, for which sleeping is cheaper: calls that arrive meanwhile
 * share the next write.
 */
const fewRequests = 4
/**
 * Polling begins after this many writes in a row, each at most `longestGapMs` after the one before: a caller
 * that waits for each answer writes again at once. Callers at random times do not, and polls cost them a
 * tenth more CPU time at 1,000 calls a second and gain nothing.
 */
export const writesBeforePolling = 8
export const maxGapMs = 1
/** The longest poll, in milliseconds. A server that takes longer is not polled. */
export const maxPollMs = 0.1
/**
 * After a poll of n milliseconds, polling rests for at least this many times n: at most a third of a core is
 * spent.
 */
export const cooldownFactor = 2
/**
 * The rest after a poll that ended without an answer; it doubles with each further one, up to
 * `longestRestMs`.
 */
export const initialCooldownMs = 10
export const maxCooldownMs = 1000

export function createBusyPoll(options: BusyPollOptions): BusyPoll {
  const { mode = 'auto', isOver, clock = systemClock, inNextTurn = setImmediate } = options
  let polling = false
  let notBeforeMs = Number.NEGATIVE_INFINITY
  let cooldownMs = 0
  let lastWriteMs = Number.NEGATIVE_INFINITY
  let closeWrites = 0

  function cooldown(waitedMs: number, timedOut: boolean): void {
    polling = false
    cooldownMs = timedOut ? Math.min(maxCooldownMs, Math.max(initialCooldownMs, 2 * cooldownMs)) : 0
    notBeforeMs = clock.monotonicMs() + Math.max(cooldownMs, cooldownFactor * waitedMs)
  }

  return {
    begin(requests) {
      if (mode === 'off' || requests > fewRequests) return
      const startMs = clock.monotonicMs()
      closeWrites = startMs - lastWriteMs <= maxGapMs ? closeWrites + 1 : 0
      lastWriteMs = startMs
      if (closeWrites < writesBeforePolling || polling || startMs < notBeforeMs) return
      polling = true
      const poll = () => {
        const waitedMs = clock.monotonicMs() - startMs
        if (isOver()) cooldown(waitedMs, false)
        else if (waitedMs >= maxPollMs) cooldown(waitedMs, true)
        else inNextTurn(poll)
      }
      inNextTurn(poll)
    },
  }
}
