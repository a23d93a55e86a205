import type { Clock } from '@tollway/chassis/clock.ts'

/** Finds out when what is waited for makes no progress. One timer watches all of it. */
export interface StallWatch {
  /** Something is waited for from now on, unless something is already. */
  begin(): void
  /** There was progress. */
  progress(): void
  stop(): void
}

export interface StallWatchOptions {
  readonly clock: Clock
  /** How long there may be no progress, asked at each look. */
  readonly timeoutMs: () => number
  /** Whether anything is still waited for. */
  readonly isWaiting: () => boolean
  /** Called once there was none for so long. */
  readonly onStall: (timeoutMs: number) => void
}

export function createStallWatch({ clock, timeoutMs, isWaiting, onStall }: StallWatchOptions): StallWatch {
  let progressMs = clock.monotonicMs()
  let timer: NodeJS.Timeout | undefined

  /** After a turn in which the event loop was busy, what has arrived is read first. */
  function readFirst(): void {
    setImmediate(check)
  }

  function check(): void {
    timer = undefined
    if (!isWaiting()) return
    const leftMs = progressMs + timeoutMs() - clock.monotonicMs()
    if (leftMs > 0) timer = setTimeout(readFirst, leftMs)
    else onStall(timeoutMs())
  }

  return {
    begin() {
      progressMs = clock.monotonicMs()
      timer ??= setTimeout(readFirst, timeoutMs())
    },
    progress() {
      progressMs = clock.monotonicMs()
    },
    stop() {
      clearTimeout(timer)
      timer = undefined
    },
  }
}
