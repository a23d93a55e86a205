import type { Clock } from '@tollway/chassis/clock.ts'

/** Detects that a peer which owes replies makes no progress. One timer watches all that is owed. */
export interface StallWatch {
  /** Starts watching. Called when the first reply becomes owed. */
  begin(): void
  /** Records progress. */
  progress(): void
  stop(): void
}

export interface StallWatchOptions {
  readonly clock: Clock
  /** The longest time without progress; read at each check. */
  readonly timeoutMs: () => number
  /** Returns whether a reply is owed. */
  readonly isWaiting: () => boolean
  /** Called after `timeoutMs` without progress; the watch stops then. */
  readonly onStall: (timeoutMs: number) => void
  /** Reports a shorter time without progress, if given. */
  readonly silence?: Silence | undefined
}

export interface Silence {
  /** Read at each check. */
  readonly afterMs: () => number
  /** Called once after `afterMs` without progress, */
  readonly onBegin: (afterMs: number) => void
  /** and at the next progress. */
  readonly onEnd: () => void
}

export function createStallWatch(options: StallWatchOptions): StallWatch {
  const { clock, timeoutMs, isWaiting, onStall, silence } = options
  let progressMs = clock.monotonicMs()
  let timer: NodeJS.Timeout | undefined
  let silent = false

  /** Reads what has arrived before it checks, since the event loop may have been busy. */
  function readFirst(): void {
    setImmediate(check)
  }

  function check(): void {
    timer = undefined
    if (!isWaiting()) return
    const quietMs = clock.monotonicMs() - progressMs
    const stallMs = timeoutMs()
    if (quietMs >= stallMs) {
      onStall(stallMs)
      return
    }
    const silenceMs = silence?.afterMs() ?? Number.POSITIVE_INFINITY
    if (!silent && quietMs >= silenceMs) {
      silent = true
      silence?.onBegin(silenceMs)
    }
    plan(quietMs)
  }

  function plan(quietMs: number): void {
    const silenceMs = silent ? Number.POSITIVE_INFINITY : (silence?.afterMs() ?? Number.POSITIVE_INFINITY)
    timer = setTimeout(readFirst, Math.min(silenceMs, timeoutMs()) - quietMs)
  }

  function stop(): void {
    clearTimeout(timer)
    timer = undefined
  }

  return {
    begin() {
      progressMs = clock.monotonicMs()
      if (timer === undefined) plan(0)
    },
    progress() {
      progressMs = clock.monotonicMs()
      if (!silent) return
      silent = false
      stop()
      plan(0)
      silence?.onEnd()
    },
    stop,
  }
}
