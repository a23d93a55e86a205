export class KeyedCounter {
  readonly #counts = new Map<string, number>()

  count(key: string): number {
    return this.#counts.get(key) ?? 0
  }

  /** Returns false, and adds nothing, if the count has reached the limit. */
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
