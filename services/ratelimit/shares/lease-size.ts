/** A lease is to save this many calls of the backend. */
const usefulHits = 100

/**
 * Returns how many hits of a limit a process takes at once, to decide by itself: enough for 10 to 50 ms at
 * the observed rate, the longer the lower the rate. Near the limit, leases become small, so that the last
 * hits are not kept by a process that does not need them; the last 31 are taken one by one.
 *
 * @param left what the limit has left; may be negative
 */
export function leaseSize(hitsPerSecond: number, left: number): number {
  const useful = Math.min(Math.max(usefulHits, hitsPerSecond * 0.01), hitsPerSecond * 0.05)
  return Math.min(Math.max(1, Math.floor(useful)), largestLease(left))
}

/** Returns how many hits a process takes at once at most, at whatever rate. */
export function largestLease(left: number): number {
  return left < 1 ? 0 : Math.max(1, Math.floor(left / 16))
}
