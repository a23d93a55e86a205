import type { DescriptorDecision, ResponseHeader } from '../decision.ts'

/** The names of the headers that inform a caller about its limit. */
export interface ResponseHeaderNames {
  readonly limit: string
  readonly remaining: string
  readonly reset: string
}

/**
 * Returns the headers for the descriptor that is closest to its limit: the limit, the remaining requests, and
 * the seconds until the window ends, in this order. A descriptor over its limit takes precedence, and the
 * last of several does; `isOver` decides which descriptors count as over, since a quota does not. Returns no
 * header when no descriptor has a limit, or only limits of 2^32-1 of which nothing is used, as the reference.
 */
export function responseHeaders(
  statuses: readonly DescriptorDecision[],
  isOver: (index: number) => boolean,
  names: ResponseHeaderNames,
): readonly ResponseHeader[] {
  let closest: DescriptorDecision | undefined
  let least = 0xffffffff
  for (const [index, status] of statuses.entries()) {
    if (status.limit === undefined) continue
    if (isOver(index)) {
      closest = status
      least = 0
    } else if (status.remaining < least) {
      closest = status
      least = status.remaining
    }
  }
  if (closest?.limit === undefined) return []
  const { requestsPerUnit, resetSeconds } = closest.limit
  return [
    { key: names.limit, value: `${requestsPerUnit}` },
    { key: names.remaining, value: `${closest.remaining}` },
    ...(resetSeconds === undefined ? [] : [{ key: names.reset, value: `${resetSeconds}` }]),
  ]
}
