/**
 * `SlidingWindow` and `TokenBucket` multiply a number of requests by a window in ticks. Each product must be
 * less than this, so that doubles and Lua represent the sum of two products exactly.
 */
export const endOfExactProducts = 2 ** 52

/**
 * The possible numbers of ticks in a second, from the shortest tick: a microsecond, a millisecond or a
 * second.
 */
const tickRates = [1_000_000, 1000, 1] as const

/**
 * Returns the number of ticks in a second for a limit. The tick is the shortest one for which the product of
 * `mostRequests` and the window is exact (see `endOfExactProducts`). Returns undefined if even a tick of one
 * second is too short.
 *
 * @param mostRequests the larger one of `requestsPerUnit` and `burst`
 */
export function ticksPerSecond(mostRequests: number, windowSeconds: number): number | undefined {
  const product = Math.max(1, mostRequests) * windowSeconds
  return tickRates.find(rate => product * rate < endOfExactProducts)
}

/** Returns the most requests for which `ticksPerSecond` finds a tick. */
export function findMostRequests(windowSeconds: number): number {
  return Math.floor((endOfExactProducts - 1) / windowSeconds)
}
