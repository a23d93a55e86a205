/**
 * The keys, window included, that this process has touched lately, and what it knows of each: one look-up a
 * hit answers whoever wants to know. It may forget; then a key counts as touched for the first time once more.
 */
export interface TouchedKeys {
  /** What is known of the key; it is known from now on. */
  of(key: string): TouchedKey
  clear(): void
}

/** Whether the backend may drop the counter before its unit is over, unless a longer expiry is sent. */
export function needsExpiry(touched: TouchedKey, expirySeconds: number): boolean {
  return touched.expirySentSeconds < expirySeconds
}

export interface TouchedKey {
  /**
   * The expiry that was sent to the backend last, in seconds, jitter included; 0 while none was, or when the backend
   * refused it. The sender of an expiry sets it.
   */
  expirySentSeconds: number
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
    const touched = older.get(key) ?? { expirySentSeconds: 0, place: 0 }
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
