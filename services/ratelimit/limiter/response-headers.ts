import { type ListedLimit, toLabel } from './answer-extras.ts'
import type { DescriptorDecision, ResponseHeader } from './decision.ts'

/** The names of the headers that inform a caller about its limit. */
export interface ResponseHeaderNames {
  readonly limit: string
  readonly remaining: string
  readonly reset: string
}

/**
 * Returns the headers for the descriptor that is closest to its limit: the limit, the remaining requests, and
 * the seconds until the window ends, in this order. A descriptor over its limit takes precedence; of several,
 * the last one does. `isOver` decides which descriptors count as over, because a quota does not.
 *
 * As in envoyproxy/ratelimit, there are no headers if no descriptor has a limit, or if all limits are 2^32-1
 * and nothing of them is used.
 */
export function toLimitHeaders(
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

/** The largest integer of structured fields (RFC 9651, section 3.3.1). */
const maxInteger = 999_999_999_999_999

/**
 * Returns the headers of draft-ietf-httpapi-ratelimit-headers-11: `RateLimit-Policy` and `RateLimit`, which
 * list every limit in the order of `limits`, and `Retry-After` on a rejection. Returns no headers if no limit
 * may be shown.
 *
 * @param over whether the call is rejected
 */
export function toIetfHeaders(limits: readonly ListedLimit[], over: boolean): readonly ResponseHeader[] {
  const items = limits.flatMap((limit, index) =>
    limit.shown ? [{ ...limit, label: structuredString(toLabel(limit, index)) }] : [],
  )
  if (items.length === 0) return []
  const policies = items.map(({ label, requestsPerUnit, windowSeconds }) => {
    const policy = `${label};q=${integer(requestsPerUnit)}`
    return windowSeconds === undefined ? policy : `${policy};w=${integer(windowSeconds)}`
  })
  const states = items.map(({ label, remaining, resetSeconds }) => {
    const state = `${label};r=${integer(remaining)}`
    return resetSeconds === undefined ? state : `${state};t=${integer(resetSeconds)}`
  })
  const wait = over ? retryAfter(items) : undefined
  return [
    { key: 'RateLimit-Policy', value: policies.join(', ') },
    { key: 'RateLimit', value: states.join(', ') },
    ...(wait === undefined ? [] : [{ key: 'Retry-After', value: `${wait}` }]),
  ]
}

/**
 * Returns the seconds until no limit would reject the same call: the longest wait of the limits that delay
 * it. Undefined if one of them would never admit the call.
 */
function retryAfter(limits: readonly ListedLimit[]): number | undefined {
  const waits = limits
    .filter(({ delays }) => delays)
    .map(({ resetSeconds = Number.POSITIVE_INFINITY }) => resetSeconds)
  const longest = Math.max(...waits)
  return Number.isFinite(longest) ? longest : undefined
}

function integer(value: number): number {
  return Math.min(value, maxInteger)
}

/** Returns a String of structured fields, which is ASCII. Other characters are percent-encoded. */
function structuredString(text: string): string {
  const ascii = text.toWellFormed().replace(/[^\x20-\x7e]/gu, character => encodeURIComponent(character))
  return `"${ascii.replaceAll(/["\\]/g, '\\$&')}"`
}
