/**
 * The start of the window that `nowSeconds` is in; windows are aligned to the epoch. Reckoned at each call: it
 * takes 10 ns, and so does a memory of the second's windows.
 */
export function windowStart(nowSeconds: number, unitSeconds: number): number {
  return nowSeconds - (nowSeconds % unitSeconds)
}

/** Seconds until that window ends, from 1 to the unit's length. */
export function secondsUntilReset(nowSeconds: number, unitSeconds: number): number {
  return unitSeconds - (nowSeconds % unitSeconds)
}
