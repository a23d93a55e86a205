/** A number of places, and the queues that wait for one, in their order. */
export class Places {
  readonly #waiting = new Set<() => void>()
  #free: number

  constructor(count: number) {
    this.#free = count
  }

  /** Returns whether there was a place. If not, calls `onFree` when there is one, which has to take it. */
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
