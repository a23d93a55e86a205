/**
 * The decision for one counted descriptor, and what it adds to its rule's statistics. Pure: the
 * specification's evaluation rules and the reference's arithmetic, nothing else.
 */
export interface Outcome {
  readonly over: boolean
  /** What is left in the window; 0 when over. */
  readonly remaining: number
  readonly overLimitHits: number
  readonly nearLimitHits: number
  readonly withinLimitHits: number
}

/**
 * @param limit requests per unit
 * @param nearThreshold see `nearLimitThreshold`
 * @param hits what this call added, 0 for one that only looks
 * @param after the counter's value after that
 */
export function decide(limit: number, nearThreshold: number, hits: number, after: number): Outcome {
  const before = Math.max(0, after - hits)
  if (after > limit) {
    const remaining = 0
    if (before >= limit) {
      return { over: true, remaining, overLimitHits: hits, nearLimitHits: 0, withinLimitHits: 0 }
    }
    // Rounded to 32 bits, the threshold of a huge limit can lie above it.
    const nearLimitHits = Math.max(0, limit - Math.max(nearThreshold, before))
    return { over: true, remaining, overLimitHits: after - limit, nearLimitHits, withinLimitHits: 0 }
  }
  let nearLimitHits = 0
  if (after > nearThreshold) nearLimitHits = before >= nearThreshold ? hits : after - nearThreshold
  return { over: false, remaining: limit - after, overLimitHits: 0, nearLimitHits, withinLimitHits: hits }
}

/**
 * The value above which hits are near the limit. In 32-bit floats, as the reference reckons. It takes 3 ns, less
 * than to look up one that was kept.
 */
export function nearLimitThreshold(limit: number, ratio: number): number {
  return Math.floor(Math.fround(Math.fround(limit) * Math.fround(ratio)))
}

/** How much of a descriptor's hits a rule's shadow mode let through. */
export function shadowedHits(limit: number, hits: number, after: number): number {
  return Math.max(0, after - hits) >= limit ? hits : after - limit
}

/** How the descriptors of one request came out. */
export interface Votes {
  /** Descriptors over their limit that are no quota. */
  readonly over: number
  readonly quotas: number
  readonly quotasOver: number
}

/** Over when any descriptor that is no quota is over, or when there are quotas and all of them are over. */
export function isOverall({ over, quotas, quotasOver }: Votes): boolean {
  return over > 0 || (quotas > 0 && quotasOver === quotas)
}
