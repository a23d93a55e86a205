/** A pause that can be ended early. For one waiter at a time. */
export class WakeablePause {
  #isWoken = false
  #end: () => void = () => {}

  /**
   * Resolves after `ms`, after `wake`, or when the signal is aborted, with whether it was `wake`; never
   * rejects.
   */
  async wait(ms: number, signal: AbortSignal): Promise<boolean> {
    if (!this.#isWoken && !signal.aborted) {
      const { promise, resolve } = Promise.withResolvers<void>()
      const timer = setTimeout(resolve, ms)
      const onAbort = () => resolve()
      signal.addEventListener('abort', onAbort)
      this.#end = resolve
      await promise
      clearTimeout(timer)
      signal.removeEventListener('abort', onAbort)
    }
    const wasWoken = this.#isWoken
    this.#isWoken = false
    return wasWoken
  }

  /** Ends the pause; without a waiter, the next one ends at once. May be passed as a function. */
  readonly wake = (): void => {
    this.#isWoken = true
    this.#end()
  }
}
