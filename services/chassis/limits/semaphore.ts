/** Limits the total weight of concurrent tasks. A task heavier than the limit runs alone. */
export class Semaphore {
  readonly #limit: number
  readonly #waiting: { readonly weight: number; readonly start: () => void }[] = []
  #held = 0

  constructor(limit: number) {
    this.#limit = limit
  }

  /** Returns false, without beginning the task, if it does not fit or other tasks wait. */
  tryAcquire(weight = 1): boolean {
    if (this.#waiting.length > 0 || !this.#fits(weight)) return false
    this.#held += weight
    return true
  }

  /** Resolves when the task fits, in the order of the calls. */
  async acquire(weight = 1): Promise<void> {
    if (this.tryAcquire(weight)) return
    await new Promise<void>(start => this.#waiting.push({ weight, start }))
  }

  /** Ends a task, and begins the waiting tasks that fit, in order. */
  release(weight = 1): void {
    this.#held -= weight
    for (let next = this.#waiting[0]; next && this.#fits(next.weight); next = this.#waiting[0]) {
      this.#waiting.shift()
      this.#held += next.weight
      next.start()
    }
  }

  #fits(weight: number): boolean {
    return this.#held === 0 || this.#held + weight <= this.#limit
  }
}
