/** The counts that envoyproxy/ratelimit publishes as `ratelimit.localcache.*`. */
interface OverLimitCacheCounts {
  readonly lookupCount: number
  readonly hitCount: number
  readonly missCount: number
  readonly entryCount: number
  /** Keys that were dropped to make room. */
  readonly evacuateCount: number
  /** Keys that were looked up after they had expired. */
  readonly expiredCount: number
  readonly overwriteCount: number
  /** The mean Unix time at which entries were added or moved to the newer generation; 0 without entries. */
  readonly averageAccessTime: number
}

/** Keys of more UTF-16 code units are not cached, as in envoyproxy/ratelimit. */
const maxKeyLength = 65_535
/** The minimum size of a cache, as in envoyproxy/ratelimit. */
const minBytes = 512 * 1024
/** The memory of an entry without its key: two words of the string, a number, a slot of the map. */
const entryBytes = 64

/**
 * A cache of keys whose counters are over their limit. Until the end of their window, the backend need not be
 * asked about them. The cache may drop a key; the backend is then asked once more.
 *
 * It has two generations, each with half of the size. When the newer one is full, the older one is dropped,
 * and the newer one takes its place. A key that is looked up moves to the newer generation, so keys in use are
 * kept without an order of all keys. A lookup is one or two lookups in a map.
 */
export class OverLimitCache {
  readonly #maxGenerationBytes: number
  /** The Unix time until which each key is over its limit. */
  #newer = new Map<string, number>()
  #older = new Map<string, number>()
  #newerBytes = 0
  /**
   * How often `delete` or `clear` was called. A cached key that contains more than the key of its counter cannot be
   * deleted by that key. Such a key includes this number, so that it is no longer found after the next
   * deletion.
   */
  deletions = 0
  /** The sum of the Unix times at which the entries of each generation were added. */
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

  /** @param maxBytes the size of keys and entries, as estimated here and not as measured by V8 */
  constructor(maxBytes: number) {
    this.#maxGenerationBytes = Math.max(minBytes, maxBytes) / 2
  }

  has(key: string, nowSeconds: number): boolean {
    return this.until(key, nowSeconds) !== undefined
  }

  /** Returns the Unix time until which the key is over its limit; undefined if it is not known to be. */
  until(key: string, nowSeconds: number): number | undefined {
    const counts = this.#counts
    counts.lookupCount += 1
    const untilSeconds = this.#until(key, nowSeconds)
    if (untilSeconds !== undefined && nowSeconds < untilSeconds) {
      counts.hitCount += 1
      return untilSeconds
    }
    if (untilSeconds !== undefined) {
      counts.expiredCount += 1
      this.#deleteNewer(key)
    }
    counts.missCount += 1
    return undefined
  }

  /** Caches the key as over its limit until `untilSeconds`, unless it is longer than `maxKeyLength`. */
  add(key: string, untilSeconds: number, nowSeconds: number): void {
    if (key.length > maxKeyLength) return
    if (this.#until(key, nowSeconds) === undefined) this.#put(key, untilSeconds, nowSeconds)
    else {
      this.#counts.overwriteCount += 1
      this.#newer.set(key, untilSeconds)
    }
  }

  delete(key: string): void {
    this.deletions += 1
    // `#until` moves the key that it finds to the newer generation.
    if (this.#until(key, 0) !== undefined) this.#deleteNewer(key)
  }

  clear(): void {
    this.deletions += 1
    this.#newer = new Map()
    this.#older = new Map()
    this.#newerBytes = 0
    this.#newerSeconds = 0
    this.#olderSeconds = 0
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
    // The time of a single entry is not stored; the mean is subtracted.
    this.#olderSeconds -= this.#olderSeconds / this.#older.size
    this.#older.delete(key)
    this.#put(key, old, nowSeconds)
    return old
  }

  #deleteNewer(key: string): void {
    this.#newerSeconds -= this.#newerSeconds / this.#newer.size
    this.#newer.delete(key)
    this.#newerBytes -= key.length + entryBytes
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
