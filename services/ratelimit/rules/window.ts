import type { Calendar, Window } from './calendar.ts'

/** How long the windows of a limit are, or which calendar bounds them. */
export interface WindowBounds {
  /** The length of a window. Not used if `boundaries` is set. */
  readonly unitSeconds: number
  /** The calendar that bounds the windows; undefined for windows of a fixed length. */
  readonly boundaries: Calendar | undefined
}

/**
 * A counter is kept for at most this time, 68 years, even if its window is longer: every backend accepts it.
 */
const maxExpirySeconds = 2 ** 31 - 1

/** The longest duration of protobuf, in seconds: 10,000 years. */
export const maxResetSeconds = 315_576_000_000

/**
 * Returns the start of the window that contains `nowSeconds`. Windows are aligned to the epoch, or to a
 * calendar. The result is not cached: the calculation takes 10 ns, as long as a lookup.
 */
export function windowStart(nowSeconds: number, { unitSeconds, boundaries }: WindowBounds): number {
  return boundaries === undefined
    ? nowSeconds - (nowSeconds % unitSeconds)
    : boundaries.windowAt(nowSeconds).start
}

/** Returns the window that contains `nowSeconds`, in seconds since the epoch. */
export function windowAt(nowSeconds: number, { unitSeconds, boundaries }: WindowBounds): Window {
  if (boundaries !== undefined) return boundaries.windowAt(nowSeconds)
  const start = windowStart(nowSeconds, { unitSeconds, boundaries })
  return { start, end: start + unitSeconds }
}

/** Returns for how many seconds to keep the counter of the window that contains `nowSeconds`. */
export function expirySeconds(nowSeconds: number, { unitSeconds, boundaries }: WindowBounds): number {
  return Math.min(windowSeconds(nowSeconds, { unitSeconds, boundaries }), maxExpirySeconds)
}

/** Returns the length in seconds of the window that contains `nowSeconds`. */
export function windowSeconds(nowSeconds: number, { unitSeconds, boundaries }: WindowBounds): number {
  if (boundaries === undefined) return unitSeconds
  const { start, end } = boundaries.windowAt(nowSeconds)
  return end - start
}

/** Returns the seconds until the window ends, from 1 to `maxResetSeconds`. */
export function secondsUntilReset(nowSeconds: number, { unitSeconds, boundaries }: WindowBounds): number {
  const left =
    boundaries === undefined
      ? unitSeconds - (nowSeconds % unitSeconds)
      : boundaries.windowAt(nowSeconds).end - nowSeconds
  return Math.min(left, maxResetSeconds)
}
