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

/**
 * Two generations, each of half the size: when the newer one is full the older one is dropped whole, so that
 * keys in use stay and none needs a place in an order of its own. A lookup is one in a map, or two.
 *
 * @param maxBytes of keys and entries, as reckoned here; V8's own accounts are not asked
 */
export function createOverLimitCache(maxBytes: number): OverLimitCache {
  const maxGenerationBytes = Math.max(minBytes, maxBytes) / 2
  /** Key -> the second in which its window ends. */
  let newer = new Map<string, number>()
  let older = new Map<string, number>()
  let newerBytes = 0
  /** Of each generation, the seconds in which its entries were put, together. */
  let newerSeconds = 0
  let olderSeconds = 0
  const counts = {
    lookupCount: 0,
    hitCount: 0,
    missCount: 0,
    evacuateCount: 0,
    expiredCount: 0,
    overwriteCount: 0,
  }

  function put(key: string, untilSeconds: number, nowSeconds: number): void {
    const bytes = key.length + entryBytes
    if (newerBytes + bytes > maxGenerationBytes) {
      counts.evacuateCount += older.size
      older = newer
      newer = new Map()
      newerBytes = 0
      olderSeconds = newerSeconds
      newerSeconds = 0
    }
    newer.set(key, untilSeconds)
    newerBytes += bytes
    newerSeconds += nowSeconds
  }

  function until(key: string, nowSeconds: number): number | undefined {
    const found = newer.get(key)
    if (found !== undefined) return found
    const old = older.get(key)
    if (old === undefined) return undefined
    // When one entry was put is not kept; it goes with the mean.
    olderSeconds -= olderSeconds / older.size
    older.delete(key)
    put(key, old, nowSeconds)
    return old
  }

  return {
    has(key, nowSeconds) {
      counts.lookupCount += 1
      const untilSeconds = until(key, nowSeconds)
      if (untilSeconds !== undefined && nowSeconds < untilSeconds) {
        counts.hitCount += 1
        return true
      }
      if (untilSeconds !== undefined) {
        counts.expiredCount += 1
        newerSeconds -= newerSeconds / newer.size
        newer.delete(key)
        newerBytes -= key.length + entryBytes
      }
      counts.missCount += 1
      return false
    },
    add(key, untilSeconds, nowSeconds) {
      if (key.length > maxKeyLength) return
      if (until(key, nowSeconds) === undefined) put(key, untilSeconds, nowSeconds)
      else {
        counts.overwriteCount += 1
        newer.set(key, untilSeconds)
      }
    },
    get counts() {
      const entryCount = newer.size + older.size
      const averageAccessTime = Math.round((newerSeconds + olderSeconds) / Math.max(1, entryCount))
      return { ...counts, entryCount, averageAccessTime }
    },
  }
}
