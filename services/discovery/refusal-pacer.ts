import type { Clock } from '@tollway/chassis/clock.ts'

/** Limits the refusals of a feed to one per interval. */
export interface RefusalPacer {
  /**
   * Sends now, or when the interval since the last refusal has passed; a refusal that still waits is
   * replaced. Resolves when the next response may be read: at once, unless a refusal was already waiting. A
   * fix is therefore read while a refusal waits, and a server that does not wait for answers is slowed down.
   */
  send(send: () => void): Promise<void>
  /** Drops the waiting refusal: a later response was good, or its stream has ended. */
  cancel(): void
}

export function createRefusalPacer(intervalMs: number, clock: Clock): RefusalPacer {
  let lastMs = Number.NEGATIVE_INFINITY
  let waiting: { send: () => void; readonly timer: NodeJS.Timeout; readonly over: () => void } | undefined
  let over = Promise.resolve()

  function sendNow(send: () => void): void {
    lastMs = clock.monotonicMs()
    send()
  }

  function onDue(): void {
    const due = waiting
    waiting = undefined
    if (due === undefined) return
    sendNow(due.send)
    due.over()
  }

  return {
    send(send) {
      if (waiting !== undefined) {
        waiting.send = send
        return over
      }
      const restMs = lastMs + intervalMs - clock.monotonicMs()
      if (restMs <= 0) sendNow(send)
      else {
        const { promise, resolve } = Promise.withResolvers<void>()
        over = promise
        waiting = { send, timer: setTimeout(onDue, restMs), over: resolve }
      }
      return Promise.resolve()
    },
    cancel() {
      clearTimeout(waiting?.timer)
      waiting?.over()
      waiting = undefined
    },
  }
}
