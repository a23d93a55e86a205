import { toQuotaCapacity } from '@tollway/ratelimit/rules/bucket.ts'
import { isConcurrency } from '@tollway/ratelimit/rules/fields.ts'
import { type LimitSettings, openBoundaries } from '@tollway/ratelimit/rules/limit.ts'
import type { RateLimitPolicy } from '@tollway/ratelimit/rules/model.ts'
import { windowAt } from '@tollway/ratelimit/rules/window.ts'

/**
 * Returns lines that describe a limit: what it counts, its mode, and other properties that its name does not
 * show.
 *
 * @param baseKey the cache key without prefix and window
 */
export function describeLimit(
  limit: LimitSettings,
  baseKey: string | undefined,
  nowSeconds: number,
): readonly string[] {
  const { limits, unlimited, headers = true } = limit
  const lines = limits === undefined && isExtended(limit) ? describeCounting(limit, nowSeconds) : []
  const mode = describeMode(limit)
  const hidden = headers ? [] : ['headers of answers do not mention it']
  const ofMembers =
    limits?.flatMap((member, index) => describeMember(member, `${member.name || index}`, nowSeconds)) ?? []
  const together = limits === undefined ? [] : ['counted by all of its limits if all of them admit it']
  const leased = describeLeases(limits ?? [limit])
  const rejected =
    limits !== undefined || limit.algorithm !== undefined ? describeRejected(limits ?? [limit]) : []
  const counted =
    baseKey === undefined || unlimited || limits ? [] : [`counted under ${baseKey}${describeKeyEnd(limit)}`]
  return [...lines, ...mode, ...hidden, ...together, ...leased, ...rejected, ...ofMembers, ...counted]
}

/** Returns whether the limit has a field that a plain fixed window does not have. */
function isExtended({ unitMultiplier, calendar, algorithm, counting, limits }: LimitSettings): boolean {
  return [unitMultiplier, calendar, algorithm, counting, limits].some(field => field !== undefined)
}

/** Says how much of a limit pods may have taken ahead. In memory, they take nothing. */
function describeLeases(limits: readonly LimitSettings[]): readonly string[] {
  const leased = limits.filter(({ counting }) => counting === 'Leased')
  if (leased.length === 0) return []
  if (leased.length < limits.length) return ['counted exactly, because not all of its limits are Leased']
  return [
    `each pod takes 10 to 50 ms of its requests ahead, at most ${largestLease(limits)}: so many for each pod may be ` +
      'rejected too early for about a second; all pods together never admit more than the limit',
  ]
}

type LeasedLimit = Pick<RateLimitPolicy, 'requestsPerUnit' | 'algorithm' | 'burst' | 'counting'>

/** Returns the most hits that a process takes ahead of a rule with these limits; 0 if it takes none. */
export function largestLease(limits: readonly LeasedLimit[]): number {
  if (limits.length === 0 || limits.some(({ counting }) => counting !== 'Leased')) return 0
  return Math.max(1, Math.floor(Math.max(...limits.map(limitOfLease))))
}

/** A lease has at most this share of what is left; see `leaseSize`. */
function limitOfLease({ requestsPerUnit = 0, algorithm, burst = requestsPerUnit }: LeasedLimit): number {
  return (algorithm === 'TokenBucket' ? burst : requestsPerUnit) / 16
}

function describeMember(member: LimitSettings, name: string, nowSeconds: number): readonly string[] {
  const hidden = member.headers === false ? ['headers of answers do not mention it'] : []
  return [...describeCounting(member, nowSeconds), ...describeMode(member), ...hidden].map(
    line => `${name}: ${line}`,
  )
}

function describeMode(limit: LimitSettings): readonly string[] {
  const { shadowMode, quotaMode, delivery } = limit
  return [
    ...(shadowMode ? ['shadow mode: counted, but never rejected'] : []),
    ...(delivery === 'Quota'
      ? [
          'delivery: Quota: proxies that report their use decide by shares of the limit; all together admit at most ' +
            `${toQuotaCapacity(limit).maxTokens} at once beyond its rate, and one more for each share below one a second`,
        ]
      : []),
    ...(quotaMode ? ['quota: rejects only when all quotas of the request are used up'] : []),
  ]
}

function describeKeyEnd({ algorithm, unitSeconds }: LimitSettings): string {
  if (algorithm === undefined) return "<window's start>"
  return isConcurrency({ algorithm }) ? algorithm : `${algorithm}:${unitSeconds}`
}

/** Returns what a limit counts, and when it resets; empty for a plain fixed window. */
function describeCounting(limit: LimitSettings, nowSeconds: number): readonly string[] {
  const { requestsPerUnit, unitSeconds, algorithm = 'FixedWindow', burst = requestsPerUnit } = limit
  if (isConcurrency(limit)) {
    const end = `and for at most ${showSeconds(unitSeconds)}`
    return [`a request is held until its caller gives its hits back (is_negative_hits), ${end}`]
  }
  if (algorithm === 'TokenBucket') {
    const drain = `a new request every ${showSeconds(unitSeconds / requestsPerUnit)}`
    const full = `full again ${showSeconds((burst * unitSeconds) / requestsPerUnit)} after it was empty`
    const rate = requestsPerUnit === 0 ? 'no request, because requestsPerUnit is 0' : `${drain}; ${full}`
    return [`holds ${burst} ${burst === 1 ? 'request' : 'requests'}, then ${rate}`]
  }
  if (algorithm === 'SlidingWindow') {
    const share = `the previous ${showSeconds(unitSeconds)} count by the share that is not over yet`
    return [`${share}; without further requests it is empty after ${showSeconds(2 * unitSeconds)}`]
  }
  const { start, end } = windowAt(nowSeconds, { unitSeconds, boundaries: openBoundaries(limit) })
  return [`window from ${showTime(start)} to ${showTime(end)}`]
}

function describeRejected(limits: readonly LimitSettings[]): readonly string[] {
  const selectNames = (counts: boolean) =>
    limits.flatMap((limit, index) =>
      (limit.countRejected ?? false) === counts && !isConcurrency(limit) ? [limit.name || `${index}`] : [],
    )
  const describe = (names: readonly string[], what: string, end = '') => {
    const by = names.length === limits.length ? '' : ` by ${names.join(' and ')}`
    return names.length === 0 ? [] : [`rejected requests ${what}${by}${end}`]
  }
  const loss = '; a cost that is reported later is lost if it exceeds what is left (countRejected)'
  return [
    ...describe(selectNames(true), 'are counted'),
    ...describe(selectNames(false), 'are not counted', loss),
  ]
}

/** Returns `200 ms`, `1.5 s` or `3600 s`. */
function showSeconds(seconds: number): string {
  return seconds < 1 ? `${Number((1000 * seconds).toPrecision(3))} ms` : `${Number(seconds.toFixed(1))} s`
}

/** Returns the time in RFC 3339, or as seconds after 1970 if it is beyond the range of Date. */
function showTime(seconds: number): string {
  const date = new Date(seconds * 1000)
  return Number.isNaN(date.getTime()) ? `${seconds} s after 1970` : date.toISOString().replace('.000Z', 'Z')
}
