/** Limits what happens at once by its total weight. Something heavier than the limit happens alone. */
export class Semaphore {
  readonly #limit: number
  readonly #waiting: { readonly weight: number; readonly start: () => void }[] = []
  #held = 0

  constructor(limit: number) {
    this.#limit = limit
  }

  /** Returns true if it may begin now. False if it may not, or if others wait already. */
  tryAcquire(weight = 1): boolean {
    if (this.#waiting.length > 0 || !this.#fits(weight)) return false
    this.#held += weight
    return true
  }

  /** Resolves, in the order of the calls, when it may begin. */
  async acquire(weight = 1): Promise<void> {
    if (this.tryAcquire(weight)) return
    await new Promise<void>(start => this.#waiting.push({ weight, start }))
  }

  /** Ends something that began with this weight. */
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
