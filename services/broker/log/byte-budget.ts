/** In bytes. */
export const defaultMaxKeptBytes = 128 * 1024 * 1024

/**
 * The bytes that all requests of a process may hold together: in rings, on their way to Redis, and in Redis after their
 * end. The owner of each byte spends it here and gives it back.
 *
 * While the budget is exceeded, a ring keeps only what its cursors hold, and no more than an equal share of the limit:
 * beyond that its producer waits or its oldest entries make room, as when the ring is full by its own limits. So many
 * requests cannot take more memory than there is, and one with slow consumers cannot take that of the others.
 */
export class ByteBudget {
  readonly limit: number
  #used = 0
  #rings = 0

  constructor(limit: number) {
    this.limit = limit
  }

  get used(): number {
    return this.#used
  }

  get isExceeded(): boolean {
    return this.#used > this.limit
  }

  /** The bytes that each ring may hold while the budget is exceeded. */
  get share(): number {
    return this.limit / Math.max(1, this.#rings)
  }

  /** @param bytes negative for those that are given back */
  spend(bytes: number): void {
    this.#used += bytes
  }

  addRing(): void {
    this.#rings += 1
  }

  removeRing(): void {
    this.#rings -= 1
  }
}
