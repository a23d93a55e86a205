/** A value of an `ExpiringTable`. Its expiry may be changed to a later second, but not to an earlier one. */
export interface Expiring {
  /** The expiry in whole seconds, by the same clock as the `nowSeconds` that the table receives. */
  readonly expiresAt: number
}

/**
 * A new key removes up to this many expired values: more than one, because a flood of new keys would
 * otherwise outrun the removal.
 */
const sweptPerNewKey = 8

/**
 * A table of values that expire, without a timer or heap entry for each key.
 *
 * A new key that does not fit into `maxKeys` evicts a value: an expired one or otherwise the one that expires
 * soonest, since that loses the least. Among values that expire in the same second the youngest is evicted,
 * so that a flood of keys evicts its own values and not those that existed before it.
 */
export class ExpiringTable<Value extends Expiring> {
  readonly #maxKeys: number
  readonly #values = new Map<string, Value>()
  /** The keys by second, each once: at its expiry, or earlier if the expiry was changed since. */
  readonly #keysBySecond = new Map<number, string[]>()
  /** The seconds that have keys, the latest first, so that the soonest is popped. */
  readonly #seconds: number[] = []

  constructor(maxKeys: number) {
    this.#maxKeys = maxKeys
  }

  /** The number of values, including expired ones that have not been removed yet. */
  get size(): number {
    return this.#values.size
  }

  /** Returns the value of the key, unless it has expired. */
  get(key: string, nowSeconds: number): Value | undefined {
    const value = this.#values.get(key)
    return value !== undefined && value.expiresAt > nowSeconds ? value : undefined
  }

  /** A new key first removes some expired values, and evicts values if there is no room. */
  set(key: string, value: Value, nowSeconds: number): void {
    if (!this.#values.has(key)) {
      this.#makeRoom(nowSeconds)
      this.#schedule(key, value.expiresAt)
    }
    this.#values.set(key, value)
  }

  clear(): void {
    this.#values.clear()
    this.#keysBySecond.clear()
    this.#seconds.length = 0
  }

  #makeRoom(nowSeconds: number): void {
    for (let swept = 0; swept < sweptPerNewKey && this.#soonest() <= nowSeconds; swept += 1) this.#drop()
    while (this.#values.size >= this.#maxKeys) this.#drop()
  }

  /** Returns the first second that has a key; infinity when there are no keys. */
  #soonest(): number {
    return this.#seconds.at(-1) ?? Number.POSITIVE_INFINITY
  }

  /**
   * Deletes the newest key of the soonest second, or moves it to its later second if its expiry was changed.
   */
  #drop(): void {
    const second = this.#soonest()
    const keys = this.#keysBySecond.get(second)
    const key = keys?.pop()
    if (keys?.length === 0) {
      this.#seconds.pop()
      this.#keysBySecond.delete(second)
    }
    if (key === undefined) return
    const expiresAt = this.#values.get(key)?.expiresAt ?? second
    if (expiresAt > second) this.#schedule(key, expiresAt)
    else this.#values.delete(key)
  }

  #schedule(key: string, second: number): void {
    const keys = this.#keysBySecond.get(second)
    if (keys !== undefined) {
      keys.push(key)
      return
    }
    this.#keysBySecond.set(second, [key])
    this.#seconds.splice(this.#insertionIndex(second), 0, second)
  }

  #insertionIndex(second: number): number {
    let low = 0
    let high = this.#seconds.length
    while (low < high) {
      const middle = (low + high) >>> 1
      if ((this.#seconds[middle] ?? 0) > second) low = middle + 1
      else high = middle
    }
    return low
  }
}
