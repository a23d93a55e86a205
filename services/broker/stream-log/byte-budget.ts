export const defaultMaxKeptBytes = 128 * 1024 * 1024

/**
 * Limits the bytes of all requests of a process: in rings, in flight to Redis, in Redis after their end, and
 * in the sinks of consumers. Whoever keeps bytes counts them here.
 *
 * While the limit is exceeded, a ring keeps only entries that its cursors hold, and of these at most an equal
 * share of the limit. Beyond that share, its producer waits or its oldest entries are dropped, as in a full
 * ring. So the total memory is bounded, and a request with slow consumers cannot use the memory of others.
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

  /** The bytes that each ring may keep while the budget is exceeded. */
  get share(): number {
    return this.limit / Math.max(1, this.#rings)
  }

  /** @param bytes negative to release bytes */
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
