/** A number of permits, and the callers that wait for one, in their order. */
export class Semaphore {
  readonly #waiting = new Set<() => void>()
  #free: number

  constructor(count: number) {
    this.#free = count
  }

  /** Returns whether a permit was free. If not, calls `onFree` when one is, which has to take it. */
  take(onFree: () => void): boolean {
    const isFree = this.#free > 0
    if (isFree) this.#free -= 1
    else this.#waiting.add(onFree)
    return isFree
  }

  release(): void {
    this.#free += 1
    for (const onFree of this.#waiting) {
      if (this.#free === 0) return
      this.#waiting.delete(onFree)
      onFree()
    }
  }
}
