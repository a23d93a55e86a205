import type { DescriptorDecision, ResponseHeader } from './decision.ts'

/** The names of the headers that tell a caller of its limit. */
export interface ResponseHeaderNames {
  readonly limit: string
  readonly remaining: string
  readonly reset: string
}

/**
 * Tells of the descriptor that is closest to its limit: limit, what remains, and the seconds until the window
 * ends, in this order. One that is over its limit goes before all others, the last of several; `isOver` says
 * which count as such, for a quota does not. No header when no descriptor has a limit.
 */
export function responseHeaders(
  statuses: readonly DescriptorDecision[],
  isOver: (index: number) => boolean,
  names: ResponseHeaderNames,
): readonly ResponseHeader[] {
  let closest: DescriptorDecision | undefined
  let least = Number.POSITIVE_INFINITY
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
    { key: names.reset, value: `${resetSeconds}` },
  ]
}
