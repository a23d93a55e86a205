import { type Clock, systemClock } from '@tollway/chassis/clock.ts'

/**
 * Keeps the event loop turning while an answer is due that comes soon. A process that goes to sleep for it is woken
 * tens of microseconds late, and to be put to sleep and woken takes the processor about as long as to look a few times:
 * one call at a time over loopback is answered in 0.27 ms instead of 0.35, for the same CPU.
 */
export interface BusyPoll {
  /**
   * The answers to so many requests are waited for from now on, if they are few and there was time enough since the last
   * wait. Everything else that happens meanwhile is served as ever.
   */
  begin(requests: number): void
}

/** `auto` waits as described below, `off` never. */
export type BusyPollMode = 'auto' | 'off'

export interface BusyPollOptions {
  /** `auto` when left out. */
  readonly mode?: BusyPollMode | undefined
  /** Whether nobody waits any more. */
  readonly isOver: () => boolean
  readonly clock?: Clock
  /** Calls back in the next turn of the event loop, without sleeping before. */
  readonly inNextTurn?: (callback: () => void) => void
}

/**
 * A write of more requests stands for many calls: these are worth a sleep, for those that come meanwhile go into one
 * write too.
 */
const fewRequests = 4
/** A server that is further away is not waited for like this. */
export const longestWaitMs = 0.1
/** So many times as long as it waited it does not wait again: at most a third of a core goes into it. */
export const restsPerWait = 2
/** Whoever waited in vain rests so long, and twice as long each time after it. */
export const firstRestMs = 10
export const longestRestMs = 1000

export function createBusyPoll(options: BusyPollOptions): BusyPoll {
  const { mode = 'auto', isOver, clock = systemClock, inNextTurn = setImmediate } = options
  let waiting = false
  let notBeforeMs = Number.NEGATIVE_INFINITY
  let restMs = 0

  function rest(waitedMs: number, inVain: boolean): void {
    waiting = false
    restMs = inVain ? Math.min(longestRestMs, Math.max(firstRestMs, 2 * restMs)) : 0
    notBeforeMs = clock.monotonicMs() + Math.max(restMs, restsPerWait * waitedMs)
  }

  return {
    begin(requests) {
      if (mode === 'off' || requests > fewRequests) return
      const startMs = clock.monotonicMs()
      if (waiting || startMs < notBeforeMs) return
      waiting = true
      const look = () => {
        const waitedMs = clock.monotonicMs() - startMs
        if (isOver()) rest(waitedMs, false)
        else if (waitedMs >= longestWaitMs) rest(waitedMs, true)
        else inNextTurn(look)
      }
      inNextTurn(look)
    },
  }
}
