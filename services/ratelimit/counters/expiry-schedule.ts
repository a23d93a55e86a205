/**
 * Keys by the second in which they expire: one bucket for each second, without a timer or heap entry for each
 * key.
 */
export interface ExpirySchedule {
  put(expiresAt: number, key: string): void
  /** Returns the first second in which a key expires; infinity when there are no keys. */
  soonest(): number
  /** Removes the key that was put last into the soonest second. */
  take(taken: (key: string, expiresAt: number) => void): void
}

export function createExpirySchedule(): ExpirySchedule {
  const keysBySecond = new Map<number, string[]>()
  /** Latest first, so that the soonest is popped. */
  const seconds: number[] = []

  function insert(second: number): void {
    let low = 0
    let high = seconds.length
    while (low < high) {
      const middle = (low + high) >>> 1
      if ((seconds[middle] ?? 0) > second) low = middle + 1
      else high = middle
    }
    seconds.splice(low, 0, second)
  }

  return {
    put(expiresAt, key) {
      const keys = keysBySecond.get(expiresAt)
      if (keys !== undefined) {
        keys.push(key)
        return
      }
      keysBySecond.set(expiresAt, [key])
      insert(expiresAt)
    },
    soonest: () => seconds.at(-1) ?? Number.POSITIVE_INFINITY,
    take(taken) {
      const second = seconds.at(-1)
      if (second === undefined) return
      const keys = keysBySecond.get(second) ?? []
      const key = keys.pop()
      if (keys.length === 0) {
        seconds.pop()
        keysBySecond.delete(second)
      }
      if (key !== undefined) taken(key, second)
    },
  }
}
