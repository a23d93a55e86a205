import type { Clock } from '@tollway/chassis/clock.ts'
import { type Counters, CountersError, type Hit, maxCount } from '../counters/counters.ts'
import type { Limit, RuleSet } from '../rules/compile.ts'
import { type Match, match, overrideLimit } from '../rules/match.ts'
import { replacedLimits } from '../rules/replaces.ts'
import type { LimitStats, LimitStatsTable } from '../stats/limit-stats.ts'
import type { Stats } from '../stats/stats.ts'
import { decide, isOverall, nearLimitThreshold, shadowedHits } from './decide.ts'
import {
  type Decision,
  type DecisionRequest,
  type DescriptorDecision,
  type DescriptorRequest,
  RequestError,
} from './decision.ts'
import { secondsUntilReset, windowStart } from './window.ts'

/** Answers rate limit calls: match, count, decide, record. */
export interface Limiter {
  /** Rejects with a `RequestError`, or with the `CountersError` of a backend that failed. */
  decide(request: DecisionRequest): Promise<Decision>
}

export interface LimiterOptions {
  /**
   * What is in force right now; undefined before the first configuration. A call is decided by one of them
   * alone.
   */
  readonly rules: () => RuleSet<LimitStats> | undefined
  readonly counters: Counters
  readonly stats: Stats
  readonly limitStats: LimitStatsTable
  readonly clock: Clock
  /** Uniform in [0, 1). */
  readonly random: () => number
  readonly cacheKeyPrefix: string
  readonly expirationJitterMaxSeconds: number
  readonly nearLimitRatio: number
  readonly shadowMode: boolean
  readonly quotaMode: boolean
}

/** What remains with each OK descriptor that no limit bounds. */
const unlimitedRemaining = 0xffffffff

const noLimit: DescriptorDecision = { over: false, remaining: 0 }
const unlimited: DescriptorDecision = { over: false, remaining: unlimitedRemaining }

/** A descriptor whose limit is counted, and its place in the request. */
interface Counted {
  readonly index: number
  readonly limit: Limit<LimitStats>
  readonly hits: number
}

export function createLimiter(options: LimiterOptions): Limiter {
  const { clock, counters, stats, limitStats } = options
  const serviceErrors = stats.counter('ratelimit.service.call.should_rate_limit.service_error')
  const backendErrors = stats.counter('ratelimit.service.call.should_rate_limit.redis_error')
  const globalShadow = stats.counter('ratelimit.service.global_shadow_mode')

  function matchesOf(request: DecisionRequest): (Match<LimitStats> | undefined)[] {
    const rules = options.rules()
    check(request, rules)
    if (!rules.domains.has(request.domain)) {
      limitStats.domainNotFound(request.domain).value += 1
      return request.descriptors.map(() => undefined)
    }
    return request.descriptors.map((descriptor, index) => {
      const { entries, limit } = descriptor
      if (limit === undefined) return match(rules, request.domain, entries, limitStats.attachRequested)
      if (limit.unit === undefined) {
        throw new RequestError(
          `descriptors[${index}].limit.unit must be one of SECOND, MINUTE, HOUR, DAY, MONTH, YEAR`,
          true,
        )
      }
      const { requestsPerUnit, unit } = limit
      return overrideLimit(request.domain, entries, { requestsPerUnit, unit }, limitStats.attachRequested)
    })
  }

  function hitOf(found: Match<LimitStats>, hits: number, nowSeconds: number): Hit {
    const { unit, unitSeconds } = found.limit
    const jitter = Math.floor(options.random() * options.expirationJitterMaxSeconds)
    const key = `${options.cacheKeyPrefix}${found.stem}${windowStart(nowSeconds, unit)}`
    return { key, hits, expirySeconds: unitSeconds + jitter }
  }

  async function answer(request: DecisionRequest): Promise<Decision> {
    const matches = matchesOf(request)
    const replaced = replacedLimits(matches)
    const nowSeconds = Math.floor(clock.nowMs() / 1000)
    const statuses: DescriptorDecision[] = []
    const counted: Counted[] = []
    const batch: Hit[] = []
    for (const [index, found] of matches.entries()) {
      statuses.push(found?.limit.unlimited ? unlimited : noLimit)
      if (found === undefined || found.limit.unlimited || replaced.has(found.limit.name)) continue
      const hits = hitsOf(request, request.descriptors[index])
      found.limit.stats.totalHits.value += hits
      counted.push({ index, limit: found.limit, hits })
      batch.push(hitOf(found, hits, nowSeconds))
    }
    const values = batch.length > 0 ? await counters.add(batch) : []
    const overIndexes = new Set<number>()
    for (const [place, { index, limit, hits }] of counted.entries()) {
      const status = record(limit, hits, values[place] ?? maxCount, nowSeconds)
      statuses[index] = status
      if (status.over) overIndexes.add(index)
    }
    const votes = matches.map((found, index) => ({
      over: overIndexes.has(index),
      quota: isQuota(found),
    }))
    const over = isOverall(votes)
    if (over && options.shadowMode) globalShadow.value += 1
    return { over: over && !options.shadowMode, statuses }
  }

  /**
   * Under the global quota mode every descriptor that is not unlimited is a quota, also one without a limit.
   */
  function isQuota(found: Match<LimitStats> | undefined): boolean {
    if (options.quotaMode) return found?.limit.unlimited !== true
    return found?.limit.quotaMode === true
  }

  function record(limit: Limit<LimitStats>, hits: number, after: number, nowSeconds: number) {
    const { requestsPerUnit, unit, name } = limit
    const threshold = nearLimitThreshold(requestsPerUnit, options.nearLimitRatio)
    const outcome = decide(requestsPerUnit, threshold, hits, after)
    limit.stats.overLimit.value += outcome.overLimitHits
    limit.stats.nearLimit.value += outcome.nearLimitHits
    limit.stats.withinLimit.value += outcome.withinLimitHits
    const shadowed = outcome.over && limit.shadowMode
    if (shadowed) limit.stats.shadowMode.value += shadowedHits(requestsPerUnit, hits, after)
    const resetSeconds = secondsUntilReset(nowSeconds, unit)
    return {
      over: outcome.over && !shadowed,
      remaining: outcome.remaining,
      limit: { name, requestsPerUnit, unit, resetSeconds },
    }
  }

  return {
    async decide(request) {
      try {
        return await answer(request)
      } catch (error) {
        if (error instanceof RequestError) serviceErrors.value += 1
        else if (error instanceof CountersError) backendErrors.value += 1
        throw error
      }
    },
  }
}

/** The reference's three service errors, in its words and its order. */
function check(
  request: DecisionRequest,
  rules: RuleSet<LimitStats> | undefined,
): asserts rules is RuleSet<LimitStats> {
  if (request.domain === '') throw new RequestError('rate limit domain must not be empty', false)
  if (request.descriptors.length === 0) {
    throw new RequestError('rate limit descriptor list must not be empty', false)
  }
  if (rules === undefined) throw new RequestError('no rate limit configuration loaded', false)
}

function hitsOf(request: DecisionRequest, descriptor: DescriptorRequest | undefined): number {
  return descriptor?.hitsAddend ?? Math.max(1, request.hitsAddend)
}
