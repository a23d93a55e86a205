import type { Calendar, Window } from './calendar.ts'

/** The windows of a limit. */
export interface WindowBounds {
  /** The length of a window; without meaning if it is one of a calendar. */
  readonly unitSeconds: number
  /** The boundaries of the windows, if they are those of a calendar. */
  readonly boundaries: Calendar | undefined
}

/** Longer windows keep their counters for this time, 68 years, which every backend can express. */
const maxExpirySeconds = 2 ** 31 - 1

/** The longest duration of protobuf: 10,000 years. */
export const maxResetSeconds = 315_576_000_000

/**
 * Returns the start of the window that contains `nowSeconds`. Windows are aligned to the epoch, or to a
 * calendar. The calculation takes 10 ns, as long as looking up a cached value.
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

/** Returns how long the counter of the window that contains `nowSeconds` is kept. */
export function expirySeconds(nowSeconds: number, { unitSeconds, boundaries }: WindowBounds): number {
  return Math.min(windowSeconds(nowSeconds, { unitSeconds, boundaries }), maxExpirySeconds)
}

/** Returns the length of the window that contains `nowSeconds`. */
export function windowSeconds(nowSeconds: number, { unitSeconds, boundaries }: WindowBounds): number {
  if (boundaries === undefined) return unitSeconds
  const { start, end } = boundaries.windowAt(nowSeconds)
  return end - start
}

/** Returns the seconds until the window ends, at least 1. */
export function secondsUntilReset(nowSeconds: number, { unitSeconds, boundaries }: WindowBounds): number {
  const left =
    boundaries === undefined
      ? unitSeconds - (nowSeconds % unitSeconds)
      : boundaries.windowAt(nowSeconds).end - nowSeconds
  return Math.min(left, maxResetSeconds)
}
