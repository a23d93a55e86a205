/** Counts by key, such as the pushes of a route. */
export class KeyedCounter {
  readonly #counts = new Map<string, number>()

  count(key: string): number {
    return this.#counts.get(key) ?? 0
  }

  /** Adds one to the key's count if it is below `limit`; returns whether it did. */
  take(key: string, limit: number): boolean {
    const count = this.count(key)
    if (count < limit) this.#counts.set(key, count + 1)
    return count < limit
  }

  release(key: string): void {
    const count = this.count(key)
    if (count <= 1) this.#counts.delete(key)
    else this.#counts.set(key, count - 1)
  }
}
