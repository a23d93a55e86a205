/** A counted key. The count is too high by at most the error. */
export interface CountedItem<T> {
  readonly item: T
  count: number
  error: number
}

/**
 * Counts the most frequent keys in fixed memory, by the Space-Saving algorithm (Metwally, Agrawal and El
 * Abbadi, 2005): a new key replaces the one with the lowest count, and takes over its count as its error.
 * Every key whose count is above `missingAtMost` is present.
 */
export interface SpaceSaving<T> {
  /** @param make creates the item of a key; called when the key is added */
  add(key: string, hits: number, make: () => T): void
  /** Returns the keys with the highest counts first. */
  top(): readonly CountedItem<T>[]
  /** The highest count that a missing key can have. */
  missingAtMost(): number
}

export function createSpaceSaving<T>(capacity: number): SpaceSaving<T> {
  const counted = new Map<string, CountedItem<T>>()

  function lowest(): [string, CountedItem<T>] | undefined {
    let found: [string, CountedItem<T>] | undefined
    for (const entry of counted) if (found === undefined || entry[1].count < found[1].count) found = entry
    return found
  }

  return {
    add(key, hits, make) {
      const known = counted.get(key)
      if (known !== undefined) {
        known.count += hits
        return
      }
      let error = 0
      const replaced = counted.size < capacity ? undefined : lowest()
      if (replaced !== undefined) {
        error = replaced[1].count
        counted.delete(replaced[0])
      }
      counted.set(key, { item: make(), count: error + hits, error })
    },
    top: () => [...counted.values()].sort((a, b) => b.count - a.count),
    missingAtMost: () => (counted.size < capacity ? 0 : (lowest()?.[1].count ?? 0)),
  }
}
