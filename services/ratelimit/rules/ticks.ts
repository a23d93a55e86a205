/**
 * The end of the products of a number of requests and a window in ticks that `SlidingWindow` and
 * `TokenBucket` compute with. Doubles and Lua represent the sums of two such products exactly.
 */
export const endOfExactProducts = 2 ** 52

/** The number of ticks in a second: microseconds, milliseconds and seconds. */
const tickRates = [1_000_000, 1000, 1] as const

/**
 * Returns the ticks of a second for a rule: of the smallest tick for which the products of the window with
 * `requestsPerUnit` and with `burst` are exact. Returns undefined if no tick is exact.
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
