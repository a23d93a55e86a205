/** A wait that can be ended early. For one waiter at a time. */
export interface WakeablePause {
  /**
   * Resolves after `ms`, after `wake`, or when the signal is aborted, with whether it was `wake`; never
   * rejects.
   */
  wait(ms: number, signal: AbortSignal): Promise<boolean>
  /** Ends the wait; without a waiter, the next wait ends at once. */
  wake(): void
}

export function createWakeablePause(): WakeablePause {
  let isWoken = false
  let end = () => {}
  return {
    async wait(ms, signal) {
      if (!isWoken && !signal.aborted) {
        const { promise, resolve } = Promise.withResolvers<void>()
        const timer = setTimeout(resolve, ms)
        const onAbort = () => resolve()
        signal.addEventListener('abort', onAbort)
        end = resolve
        await promise
        clearTimeout(timer)
        signal.removeEventListener('abort', onAbort)
      }
      const wasWoken = isWoken
      isWoken = false
      return wasWoken
    },
    wake() {
      isWoken = true
      end()
    },
  }
}
