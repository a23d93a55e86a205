/**
 * The keys that this process has touched lately. It may forget: then a key counts as touched for the first
 * time once more.
 */
export interface TouchedKeys {
  /** Whether the key was not known; it is from now on. */
  isFirst(key: string): boolean
  forget(key: string): void
  clear(): void
}

/**
 * Two generations of half the size: when the newer one is full the older one is dropped whole, so that keys
 * in use stay and no key needs a place in an order of its own.
 */
export function createTouchedKeys(maxKeys: number): TouchedKeys {
  const maxPerGeneration = Math.max(1, Math.floor(maxKeys / 2))
  let newer = new Set<string>()
  let older = new Set<string>()
  return {
    isFirst(key) {
      if (newer.has(key)) return false
      if (newer.size >= maxPerGeneration) {
        older = newer
        newer = new Set()
      }
      newer.add(key)
      return !older.delete(key)
    },
    forget(key) {
      newer.delete(key)
      older.delete(key)
    },
    clear() {
      newer = new Set()
      older = new Set()
    },
  }
}
