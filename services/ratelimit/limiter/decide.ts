/**
 * The decision for one counted descriptor, and the hits to add to the statistics of its rule. The rules and
 * the arithmetic are those of envoyproxy/ratelimit.
 */
interface Outcome {
  readonly over: boolean
  /** The remaining requests of the window; 0 when over. */
  readonly remaining: number
  readonly overLimitHits: number
  readonly nearLimitHits: number
  readonly withinLimitHits: number
}

/**
 * Returns the decision for one descriptor with a fixed window.
 *
 * @param limit requests per unit
 * @param nearThreshold see `nearLimitThreshold`
 * @param hits the hits that this call added; 0 if it only read
 * @param after the counter's value after the call
 */
export function decide(limit: number, nearThreshold: number, hits: number, after: number): Outcome {
  const before = Math.max(0, after - hits)
  if (after > limit) {
    const remaining = 0
    if (before >= limit) {
      return { over: true, remaining, overLimitHits: hits, nearLimitHits: 0, withinLimitHits: 0 }
    }
    // Rounded to 32 bits, the threshold of a huge limit can exceed the limit.
    const nearLimitHits = Math.max(0, limit - Math.max(nearThreshold, before))
    return { over: true, remaining, overLimitHits: after - limit, nearLimitHits, withinLimitHits: 0 }
  }
  let nearLimitHits = 0
  if (after > nearThreshold) nearLimitHits = before >= nearThreshold ? hits : after - nearThreshold
  return { over: false, remaining: limit - after, overLimitHits: 0, nearLimitHits, withinLimitHits: hits }
}

/**
 * Returns the value above which hits are near the limit, computed in 32-bit floats as in
 * envoyproxy/ratelimit. The result is not cached: the calculation takes 3 ns, less than a lookup.
 */
export function nearLimitThreshold(limit: number, ratio: number): number {
  return Math.floor(Math.fround(Math.fround(limit) * Math.fround(ratio)))
}

/** Returns the hits over the limit that only the rule's shadow mode admitted. */
export function shadowedHits(limit: number, hits: number, after: number): number {
  return Math.max(0, after - hits) >= limit ? hits : after - limit
}

/** How many descriptors are quotas or over their limit; unlimited ones are not counted. */
export interface Votes {
  /** Descriptors over their limit that are not quotas. */
  over: number
  quotas: number
  quotasOver: number
}

/**
 * Returns whether the request is over: if any descriptor that is not a quota is over its limit, or if there
 * are quotas and all are over theirs.
 */
export function isOverall({ over, quotas, quotasOver }: Readonly<Votes>): boolean {
  return over > 0 || (quotas > 0 && quotasOver === quotas)
}
