import { type BackoffOptions, createBackoff } from '@tollway/chassis/backoff.ts'

/**
 * The pause of a queue after a failed attempt, which grows with each further failure. A receiver that does
 * not answer occupies a place for attempts only for a share of the time.
 */
export interface FailurePause {
  /** Whether the last attempt failed. */
  readonly failing: boolean
  /** Whether no attempt may begin now. */
  readonly active: boolean
  /** An attempt failed: the pause begins, if none is active. Calls `onOver` at its end. */
  failed(): void
  /** The receiver has answered an attempt: the next pause is a short one. */
  answered(): void
  /** Ends the active pause without a call of `onOver`. */
  cancel(): void
}

export function createFailurePause(delays: BackoffOptions, onOver: () => void): FailurePause {
  const backoff = createBackoff(delays)
  let failing = false
  let timer: NodeJS.Timeout | undefined
  return {
    get failing() {
      return failing
    },
    get active() {
      return timer !== undefined
    },
    failed() {
      if (timer !== undefined) return
      failing = true
      timer = setTimeout(() => {
        timer = undefined
        onOver()
      }, backoff.nextMs())
      timer.unref()
    },
    answered() {
      failing = false
      backoff.reset()
    },
    cancel() {
      clearTimeout(timer)
      timer = undefined
    },
  }
}
