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
  /**
   * Answers at once when the counters do, so that nothing waits for a turn of the microtask queue. Throws, or
   * rejects with, a `RequestError`, or the `CountersError` of a backend that failed.
   */
  decide(request: DecisionRequest): Decision | Promise<Decision>
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

type Found = Match<LimitStats> | undefined

/** Of each descriptor, what limits it; undefined for no match, or one that another descriptor's replaces. */
type Matches = readonly Found[]

export function createLimiter(options: LimiterOptions): Limiter {
  const { clock, counters, stats, limitStats, quotaMode, shadowMode } = options
  const { cacheKeyPrefix, expirationJitterMaxSeconds, nearLimitRatio } = options
  const serviceErrors = stats.counter('ratelimit.service.call.should_rate_limit.service_error')
  const backendErrors = stats.counter('ratelimit.service.call.should_rate_limit.redis_error')
  const globalShadow = stats.counter('ratelimit.service.global_shadow_mode')

  function matchesOf(request: DecisionRequest): Matches {
    const rules = options.rules()
    check(request, rules)
    const { domain, descriptors } = request
    if (!rules.domains.has(domain)) {
      limitStats.domainNotFound(domain).value += 1
      return descriptors.map(() => undefined)
    }
    const matches: Found[] = []
    let mayReplace = false
    for (const descriptor of descriptors) {
      const found =
        descriptor.limit === undefined
          ? match(rules, domain, descriptor.entries, limitStats.attachRequested)
          : matchOwnLimit(domain, descriptor, matches.length)
      if (found !== undefined && found.limit.replaces.length > 0) mayReplace = true
      matches.push(found)
    }
    return mayReplace ? withoutReplaced(matches) : matches
  }

  function matchOwnLimit(domain: string, { entries, limit }: DescriptorRequest, index: number): Found {
    if (limit === undefined) return undefined
    const { requestsPerUnit, unit } = limit
    if (unit === undefined) {
      throw new RequestError(
        `descriptors[${index}].limit.unit must be one of SECOND, MINUTE, HOUR, DAY, MONTH, YEAR`,
        true,
      )
    }
    return overrideLimit(domain, entries, { requestsPerUnit, unit }, limitStats.attachRequested)
  }

  /** One hit for each match that is counted. */
  function hitsOf(request: DecisionRequest, matches: Matches, nowSeconds: number): Hit[] {
    const batch: Hit[] = []
    for (let index = 0; index < matches.length; index++) {
      const found = matches[index]
      if (found === undefined || found.limit.unlimited) continue
      const { requestsPerUnit, unitSeconds, stats } = found.limit
      const hits = request.descriptors[index]?.hitsAddend ?? Math.max(1, request.hitsAddend)
      const key = `${cacheKeyPrefix}${found.stem}${windowStart(nowSeconds, unitSeconds)}`
      batch.push({ key, hits, expirySeconds: unitSeconds + jitterSeconds(), limit: requestsPerUnit })
      stats.totalHits.value += hits
    }
    return batch
  }

  function jitterSeconds(): number {
    if (expirationJitterMaxSeconds === 0) return 0
    return Math.floor(options.random() * expirationJitterMaxSeconds)
  }

  /** `batch` and the counters' `values` have one for each match that is counted, in their order. */
  function answer(
    matches: Matches,
    batch: readonly Hit[],
    values: readonly number[],
    nowSeconds: number,
  ): Decision {
    const statuses: DescriptorDecision[] = []
    const votes = { over: 0, quotas: 0, quotasOver: 0 }
    let place = 0
    for (const found of matches) {
      if (found?.limit.unlimited) {
        statuses.push(unlimited)
        continue
      }
      let status = noLimit
      if (found !== undefined) {
        status = record(found.limit, batch[place]?.hits ?? 0, values[place] ?? maxCount, nowSeconds)
        place += 1
      }
      statuses.push(status)
      // Under the global quota mode every descriptor that is not unlimited is one, also without a limit.
      const quota = quotaMode || found?.limit.quotaMode === true
      if (quota) votes.quotas += 1
      if (status.over) votes[quota ? 'quotasOver' : 'over'] += 1
    }
    const over = isOverall(votes)
    if (over && shadowMode) globalShadow.value += 1
    return { over: over && !shadowMode, statuses }
  }

  function record(
    limit: Limit<LimitStats>,
    hits: number,
    after: number,
    nowSeconds: number,
  ): DescriptorDecision {
    const { requestsPerUnit, unit, name, stats } = limit
    const outcome = decide(requestsPerUnit, nearLimitThreshold(requestsPerUnit, nearLimitRatio), hits, after)
    stats.overLimit.value += outcome.overLimitHits
    stats.nearLimit.value += outcome.nearLimitHits
    stats.withinLimit.value += outcome.withinLimitHits
    const shadowed = outcome.over && limit.shadowMode
    if (shadowed) stats.shadowMode.value += shadowedHits(requestsPerUnit, hits, after)
    const resetSeconds = secondsUntilReset(nowSeconds, limit.unitSeconds)
    return {
      over: outcome.over && !shadowed,
      remaining: outcome.remaining,
      limit: { name, requestsPerUnit, unit, resetSeconds },
    }
  }

  function counted(error: unknown): unknown {
    if (error instanceof RequestError) serviceErrors.value += 1
    else if (error instanceof CountersError) backendErrors.value += 1
    return error
  }

  return {
    decide(request) {
      try {
        const matches = matchesOf(request)
        const nowSeconds = Math.floor(clock.nowMs() / 1000)
        const batch = hitsOf(request, matches, nowSeconds)
        const values = batch.length === 0 ? [] : counters.add(batch)
        if (!(values instanceof Promise)) return answer(matches, batch, values, nowSeconds)
        return values.then(
          later => answer(matches, batch, later, nowSeconds),
          (error: unknown) => {
            throw counted(error)
          },
        )
      } catch (error) {
        throw counted(error)
      }
    },
  }
}

/** An unlimited rule cannot be replaced. */
function withoutReplaced(matches: Matches): Matches {
  const replaced = replacedLimits(matches)
  return matches.map(found =>
    found && !found.limit.unlimited && replaced.has(found.limit.name) ? undefined : found,
  )
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
