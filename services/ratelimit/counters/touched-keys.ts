/**
 * The keys, window included, that this process has touched lately, and what it knows of each: one look-up a
 * hit answers whoever wants to know. It may forget; then a key counts as touched for the first time once more.
 */
export interface TouchedKeys {
  /** What is known of the key; it is known from now on. */
  of(key: string): TouchedKey
  clear(): void
}

export interface TouchedKey {
  /** Whether the backend was told the counter's expiry. Whoever tells it says so here. */
  expirySent: boolean
  /** Where its increment stands in the write that it went into last; see `sumEqualKeys`. */
  place: number
}

/**
 * Two generations of half the size: when the newer one is full the older one is dropped whole, so that keys
 * in use stay and no key needs a place in an order of its own.
 */
export function createTouchedKeys(maxKeys: number): TouchedKeys {
  const maxPerGeneration = Math.max(1, Math.floor(maxKeys / 2))
  let newer = new Map<string, TouchedKey>()
  let older = new Map<string, TouchedKey>()

  function renew(key: string): TouchedKey {
    if (newer.size >= maxPerGeneration) {
      older = newer
      newer = new Map()
    }
    const touched = older.get(key) ?? { expirySent: false, place: 0 }
    newer.set(key, touched)
    return touched
  }

  return {
    of: key => newer.get(key) ?? renew(key),
    clear() {
      newer = new Map()
      older = new Map()
    },
  }
}
