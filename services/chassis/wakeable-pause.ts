/** A pause that `wake` ends early. At most one caller may wait at a time. */
export class WakeablePause {
  #isWoken = false
  #end: () => void = () => {}

  /**
   * Waits until `ms` have passed, `wake` is called or the signal aborts. Resolves with whether `wake` was
   * called; never rejects.
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

  /** Ends the current pause, or the next one at once if there is none now. May be passed as a callback. */
  readonly wake = (): void => {
    this.#isWoken = true
    this.#end()
  }
}
