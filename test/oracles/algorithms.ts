/**
 * Exact oracles of the algorithms in BigInt. They keep tokens as fractions of a window, and a count for each
 * window that ever was.
 */
export interface Oracle {
  /** Returns whether the hits are admitted; adds them if `adds`. */
  call(now: number, hits: number, limit: number, burst: number, adds: boolean): boolean
  clone(): Oracle
}

/** Tokens in units of 1 / window, of a bucket with room for `burst`. The missing ones are kept. */
export function tokenBucket(window: number, before = { missing: 0n, at: Number.NEGATIVE_INFINITY }): Oracle {
  let { missing, at } = before
  return {
    clone: () => tokenBucket(window, { missing, at }),
    call(now, hits, limit, burst, adds) {
      if (adds && now < at) at = now
      if (limit === 0) return false
      const since = now > at && missing > 0n ? BigInt(now - at) : 0n
      const left = missing - since * BigInt(limit)
      const wanted = (left > 0n ? left : 0n) + BigInt(hits) * BigInt(window)
      const admitted = wanted <= BigInt(burst) * BigInt(window)
      if (adds && admitted) [missing, at] = [wanted, now]
      return admitted
    },
  }
}

/** The admitted hits of each window, by the window's number. */
export function slidingWindow(
  window: number,
  before = { counts: new Map<number, bigint>(), last: 0 },
): Oracle {
  let { counts, last } = before
  return {
    clone: () => slidingWindow(window, { counts: new Map(counts), last }),
    call(now, hits, limit, _burst, adds) {
      const place = Math.floor(now / window)
      const shift = Math.max(0, last - place)
      const count = (number: number) => counts.get(number + shift) ?? 0n
      const weight = BigInt((place + 1) * window - now)
      const used = count(place - 1) * weight + (count(place) + BigInt(hits)) * BigInt(window)
      const admitted = hits <= limit && used <= BigInt(limit) * BigInt(window)
      if (adds && (admitted || shift > 0)) {
        const current = count(place) + (admitted ? BigInt(hits) : 0n)
        counts = new Map([
          [place - 1, count(place - 1)],
          [place, current],
        ])
        last = place
      }
      return admitted
    },
  }
}
