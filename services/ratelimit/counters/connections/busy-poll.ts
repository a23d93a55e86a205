import type { Clock } from '@tollway/chassis/clock.ts'

/** `auto` polls under the conditions of `createBusyPoll`; `off` never polls. */
export type BusyPollMode = 'auto' | 'off'

interface BusyPollOptions {
  readonly mode?: BusyPollMode | undefined
  /** Returns true when no request awaits an answer any more. */
  readonly isOver: () => boolean
  readonly clock: Clock
  /** Calls back in the next turn of the event loop, before which the loop does not sleep. */
  readonly inNextTurn?: (callback: () => void) => void
}

/**
 * The busy poll does not follow a write of more requests: sleeping is cheaper then, since calls that arrive
 * meanwhile share the next write.
 */
const fewRequests = 4
export const busyPollLimits = {
  /**
   * Polling begins after this many writes in a row, each at most `maxGapMs` after the one before. A caller that
   * waits for each answer writes again at once and reaches this number. Callers at random times do not; for
   * them polling would gain nothing and cost a tenth more CPU time at 1,000 calls a second.
   */
  writesBeforePolling: 8,
  maxGapMs: 1,
  /** A poll ends without an answer after this time. */
  maxPollMs: 0.1,
  /** After a poll of n ms, the next starts this many times n later: polling takes at most a third of a core. */
  cooldownFactor: 2,
  /** The cooldown after a poll without an answer; it doubles with each further one, up to `maxCooldownMs`. */
  initialCooldownMs: 10,
  maxCooldownMs: 1000,
}

const { writesBeforePolling, maxGapMs, maxPollMs, cooldownFactor, initialCooldownMs, maxCooldownMs } =
  busyPollLimits

/**
 * Keeps the event loop turning, without sleeping, while an answer is expected soon. A process that sleeps
 * wakes tens of microseconds late, and to sleep and wake costs about as much CPU time as a few polls. With
 * the busy poll, one call at a time over loopback takes 0.27 ms instead of 0.35 ms, for the same CPU time.
 *
 * Returns a function that polls for the answers to `requests` requests, unless the requests are more than
 * `fewRequests`, the last writes did not follow each other closely, or the cooldown of the last poll is not
 * over. It does not block: the event loop serves all other events meanwhile.
 */
export function createBusyPoll(options: BusyPollOptions): (requests: number) => void {
  const { mode = 'auto', isOver, clock, inNextTurn = setImmediate } = options
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

  return requests => {
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
  }
}
