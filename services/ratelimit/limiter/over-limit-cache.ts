/**
 * The keys whose counters are over their limit in the present window: until its end nobody needs to ask the
 * backend about them. It may forget a key; then the backend is asked once more.
 */
export interface OverLimitCache {
  /** Whether the key is known to be over its limit. */
  has(key: string, nowSeconds: number): boolean
  /** Notes that the key is over its limit until then. Keys beyond `maxKeyLength` are not noted. */
  add(key: string, untilSeconds: number, nowSeconds: number): void
  readonly counts: OverLimitCacheCounts
}

/** As the reference tells them under `ratelimit.localcache.`. */
export interface OverLimitCacheCounts {
  readonly lookupCount: number
  readonly hitCount: number
  readonly missCount: number
  readonly entryCount: number
  /** Keys that were forgotten for want of room. */
  readonly evacuateCount: number
  /** Keys that were found after their window. */
  readonly expiredCount: number
  readonly overwriteCount: number
  /**
   * The mean of the seconds since 1970 in which the entries were noted or moved to the newer generation; 0
   * without entries.
   */
  readonly averageAccessTime: number
}

/** In UTF-16 code units; the reference's cache refuses longer keys too. */
export const maxKeyLength = 65_535
/** A smaller cache than that is made this large, as the reference makes it. */
const minBytes = 512 * 1024
/** What an entry takes beside its key: two words of the string, a number, a place in the map. */
const entryBytes = 64

/** @param maxBytes of keys and entries, as reckoned here; V8's own accounts are not asked */
export function createOverLimitCache(maxBytes: number): OverLimitCache {
  return new TwoGenerations(Math.max(minBytes, maxBytes) / 2)
}

/**
 * Two generations, each of half the size: when the newer one is full the older one is dropped whole, so that
 * keys in use stay and none needs a place in an order of its own. A lookup is one in a map, or two.
 *
 * A class, since an accessor in an object literal makes V8 keep the object as a hash table: each call of a method
 * is then a look-up of its own.
 */
class TwoGenerations implements OverLimitCache {
  readonly #maxGenerationBytes: number
  /** Key -> the second in which its window ends. */
  #newer = new Map<string, number>()
  #older = new Map<string, number>()
  #newerBytes = 0
  /** Of each generation, the seconds in which its entries were put, together. */
  #newerSeconds = 0
  #olderSeconds = 0
  readonly #counts = {
    lookupCount: 0,
    hitCount: 0,
    missCount: 0,
    evacuateCount: 0,
    expiredCount: 0,
    overwriteCount: 0,
  }

  constructor(maxGenerationBytes: number) {
    this.#maxGenerationBytes = maxGenerationBytes
  }

  has(key: string, nowSeconds: number): boolean {
    const counts = this.#counts
    counts.lookupCount += 1
    const untilSeconds = this.#until(key, nowSeconds)
    if (untilSeconds !== undefined && nowSeconds < untilSeconds) {
      counts.hitCount += 1
      return true
    }
    if (untilSeconds !== undefined) {
      counts.expiredCount += 1
      this.#newerSeconds -= this.#newerSeconds / this.#newer.size
      this.#newer.delete(key)
      this.#newerBytes -= key.length + entryBytes
    }
    counts.missCount += 1
    return false
  }

  add(key: string, untilSeconds: number, nowSeconds: number): void {
    if (key.length > maxKeyLength) return
    if (this.#until(key, nowSeconds) === undefined) this.#put(key, untilSeconds, nowSeconds)
    else {
      this.#counts.overwriteCount += 1
      this.#newer.set(key, untilSeconds)
    }
  }

  get counts(): OverLimitCacheCounts {
    const entryCount = this.#newer.size + this.#older.size
    const averageAccessTime = Math.round((this.#newerSeconds + this.#olderSeconds) / Math.max(1, entryCount))
    return { ...this.#counts, entryCount, averageAccessTime }
  }

  #until(key: string, nowSeconds: number): number | undefined {
    const found = this.#newer.get(key)
    if (found !== undefined) return found
    const old = this.#older.get(key)
    if (old === undefined) return undefined
    // When one entry was put is not kept; it goes with the mean.
    this.#olderSeconds -= this.#olderSeconds / this.#older.size
    this.#older.delete(key)
    this.#put(key, old, nowSeconds)
    return old
  }

  #put(key: string, untilSeconds: number, nowSeconds: number): void {
    const bytes = key.length + entryBytes
    if (this.#newerBytes + bytes > this.#maxGenerationBytes) {
      this.#counts.evacuateCount += this.#older.size
      this.#older = this.#newer
      this.#newer = new Map()
      this.#newerBytes = 0
      this.#olderSeconds = this.#newerSeconds
      this.#newerSeconds = 0
    }
    this.#newer.set(key, untilSeconds)
    this.#newerBytes += bytes
    this.#newerSeconds += nowSeconds
  }
}
