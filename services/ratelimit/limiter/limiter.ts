import type { Clock } from '@tollway/chassis/clock.ts'
import type { Span } from '@tollway/chassis/tracing/tracing.ts'
import type { LimitOutcome } from '../counters/admission/limit-check.ts'
import { type Hit, maxCount } from '../counters/counters.ts'
import { MalformedKeyError } from '../counters/memcached/request.ts'
import type { RuleSet } from '../rules/compile.ts'
import type { Limit } from '../rules/limit.ts'
import { secondsUntilReset } from '../rules/window.ts'
import type { StartCounting } from '../spans.ts'
import type { LimitStats, LimitStatsTable } from '../stats/limit-stats.ts'
import type { StatCounter, Stats } from '../stats/stats.ts'
import {
  type AdmittedDescriptor,
  type CallChecks,
  needsAdmission,
  prepareChecks,
  recordAdmission,
} from './admission.ts'
import { type AnswerOptions, answerExtras, hasExtras } from './answer-extras.ts'
import { type Counting, overLimitCached } from './counting.ts'
import { decide, isOverall, nearLimitThreshold, shadowedHits, type Votes } from './decide.ts'
import {
  type DecisionRequest,
  type DescriptorDecision,
  noLimit,
  type ObserverSlot,
  type RateLimitDecision,
  RequestError,
} from './decision.ts'
import { type Matches, matchRequest } from './match-request.ts'

/** Answers rate limit calls: match, count, decide, record. */
export interface Limiter {
  /**
   * Decides a call. The decision is synchronous if the counters are, which saves a turn of the microtask
   * queue. Throws or rejects with a `RequestError`, or with the `CountersError` of a backend that failed. If
   * a span is given, counting becomes a child of it.
   */
  decide(request: DecisionRequest, span?: Span): RateLimitDecision | Promise<RateLimitDecision>
}

export interface LimiterOptions extends AnswerOptions {
  /** Returns the active rules; undefined before the first configuration. Each call uses one rule set only. */
  readonly rules: () => RuleSet<LimitStats> | undefined
  readonly counting: Counting
  /** Starts the spans of counting; none when left out. */
  readonly startCounting?: StartCounting | undefined
  readonly stats: Stats
  readonly limitStats: LimitStatsTable
  readonly clock: Clock
  readonly random: () => number
  readonly cacheKeyPrefix: string
  readonly expirationJitterMaxSeconds: number
  readonly nearLimitRatio: number
  readonly shadowMode: boolean
  /** Receives the decisions; none when left out. */
  readonly observation?: ObserverSlot | undefined
}

/** The remaining requests in the answer for an unlimited rule. */
const unlimitedRemaining = 0xffffffff

const unlimited: DescriptorDecision = { over: false, remaining: unlimitedRemaining }

const unobserved: ObserverSlot = { observer: undefined }

/** A call in progress, with the hits and checks that it asks of the counters. */
interface Call {
  readonly request: DecisionRequest
  readonly matches: Matches
  readonly checks: CallChecks
  readonly nowMs: number
  readonly nowSeconds: number
}

const nothingAdmitted: ReadonlyMap<number, AdmittedDescriptor> = new Map()

export class RuleLimiter implements Limiter {
  readonly #options: LimiterOptions
  readonly #observation: ObserverSlot
  readonly #isPlain: boolean
  readonly #jitterSeconds: () => number
  readonly #serviceErrors: StatCounter
  readonly #globalShadow: StatCounter

  /**
   * Counts an error that the request caused, and rethrows every error. One function serves all calls, so that
   * a call allocates no closure for it.
   */
  readonly #fail = (error: unknown): never => {
    if (error instanceof RequestError || error instanceof MalformedKeyError) this.#serviceErrors.value += 1
    throw error
  }

  constructor(options: LimiterOptions) {
    this.#options = options
    const { random, expirationJitterMaxSeconds } = options
    this.#jitterSeconds =
      expirationJitterMaxSeconds === 0 ? () => 0 : () => Math.floor(random() * expirationJitterMaxSeconds)
    this.#observation = options.observation ?? unobserved
    this.#isPlain = !hasExtras(options)
    this.#serviceErrors = options.stats.counter('ratelimit.service.call.should_rate_limit.service_error')
    this.#globalShadow = options.stats.counter('ratelimit.service.global_shadow_mode')
  }

  decide(request: DecisionRequest, span?: Span): RateLimitDecision | Promise<RateLimitDecision> {
    const { clock, limitStats, cacheKeyPrefix } = this.#options
    try {
      const rules = this.#options.rules()
      checkRequest(request, rules)
      const matches = matchRequest(request, rules, limitStats)
      const nowMs = clock.nowMs()
      const nowSeconds = Math.floor(nowMs / 1000)
      const allOrNothing = rules.domains.get(request.domain)?.table.allOrNothing === true
      const checks = prepareChecks(request, matches, {
        cacheKeyPrefix,
        nowSeconds,
        allOrNothing,
        jitterSeconds: this.#jitterSeconds,
      })
      recordHits(matches, checks.hits, allOrNothing)
      const values = this.#count(checks.hits, nowSeconds, span)
      const call = { request, matches, checks, nowMs, nowSeconds }
      if (checks.admissions.length > 0) return this.#answerAdmitted(call, values)
      return values instanceof Promise ? this.#answerLater(call, values) : this.#answer(call, values)
    } catch (error) {
      return this.#fail(error)
    }
  }

  #count(batch: readonly Hit[], nowSeconds: number, span: Span | undefined) {
    const { counting, startCounting } = this.#options
    if (batch.length === 0) return []
    if (span === undefined || startCounting === undefined) return counting.add(batch, nowSeconds)
    return startCounting(span, batch).run(() => counting.add(batch, nowSeconds))
  }

  /** A method of its own, so that only asynchronous calls allocate closures. */
  #answerLater(call: Call, values: Promise<readonly number[]>): Promise<RateLimitDecision> {
    return values.then(later => this.#answer(call, later), this.#fail)
  }

  /** Asks for the admissions while the hits are counted, and builds the decision from both. */
  #answerAdmitted(
    call: Call,
    values: readonly number[] | Promise<readonly number[]>,
  ): RateLimitDecision | Promise<RateLimitDecision> {
    const { counting, nearLimitRatio, quotaMode } = this.#options
    const { checks, nowMs, nowSeconds } = call
    const outcomes = checks.admissions.map(admission => counting.admit(admission.checks, nowMs))
    const build = (counted: readonly number[], all: readonly (readonly LimitOutcome[])[]) => {
      const recorded = checks.admissions.map((admission, index) =>
        recordAdmission(admission, all[index] ?? [], { nowSeconds, nearLimitRatio, quotaMode }),
      )
      const [only = nothingAdmitted] = recorded
      const admitted = recorded.length === 1 ? only : new Map(recorded.flatMap(each => [...each]))
      return this.#answer(call, counted, admitted, all[0]?.[0]?.atMicros)
    }
    return whenAll(values, outcomes, build, this.#fail)
  }

  /**
   * Builds the decision. `values` has the counter of each match without an admission, in order.
   *
   * @param admitted the decisions for the other descriptors, by their index
   * @param atMicros the Unix time in microseconds at which the backend made these decisions, by its clock
   */
  #answer(
    call: Call,
    values: readonly number[],
    admitted = nothingAdmitted,
    atMicros: number | undefined = undefined,
  ): RateLimitDecision {
    const { request, matches, checks, nowMs, nowSeconds } = call
    const { quotaMode, shadowMode } = this.#options
    const votes = { over: 0, quotas: 0, quotasOver: 0 }
    let hitIndex = 0
    const statuses = matches.map((found, index) => {
      if (found?.limit.unlimited) return unlimited
      const decided = admitted === nothingAdmitted ? undefined : admitted.get(index)
      if (decided !== undefined) {
        vote(votes, decided.status.over, decided.quota, decided.overByQuota)
        return decided.status
      }
      let status = noLimit
      if (found !== undefined) {
        const hits = checks.hits[hitIndex]?.hits ?? 0
        const after = values[hitIndex] ?? maxCount
        hitIndex += 1
        if (hits < 0) return statusAfterReturn(found.limit, after, nowSeconds)
        status = this.#record(found.limit, hits, after, call)
      }
      // In the global quota mode, a descriptor without a limit is a quota too.
      const quota = quotaMode || found?.limit.quotaMode === true
      vote(votes, status.over, quota, status.over && quota)
      return status
    })
    const over = isOverall(votes)
    if (over && shadowMode) this.#globalShadow.value += 1
    this.#observation.observer?.decided(request, matches, statuses, nowMs, atMicros)
    const decision = { over: over && !shadowMode, statuses }
    if (this.#isPlain) return decision
    return {
      ...decision,
      ...answerExtras({ request, matches, nowSeconds, admitted }, decision, this.#options),
    }
  }

  /** Updates the statistics of a limit, and returns the decision for its descriptor. */
  #record(limit: Limit<LimitStats>, hits: number, after: number, call: Call): DescriptorDecision {
    const next = call.request.purpose === 'check' ? 1 : 0
    const { requestsPerUnit, unit, name, stats } = limit
    const nearThreshold = nearLimitThreshold(requestsPerUnit, this.#options.nearLimitRatio)
    const outcome = decide(requestsPerUnit, nearThreshold, hits, after + next)
    stats.overLimit += outcome.overLimitHits
    if (after === overLimitCached) stats.overLimitWithLocalCache += outcome.overLimitHits
    stats.nearLimit += outcome.nearLimitHits
    stats.withinLimit += outcome.withinLimitHits
    const shadowed = outcome.over && limit.shadowMode
    if (shadowed) stats.shadowMode += shadowedHits(requestsPerUnit, hits, after)
    const resetSeconds = secondsUntilReset(call.nowSeconds, limit)
    return {
      over: outcome.over && !shadowed,
      remaining: outcome.over ? 0 : outcome.remaining + next,
      limit: { name, requestsPerUnit, unit, resetSeconds },
    }
  }
}

/**
 * Returns the decision for a descriptor that gives hits back: it rejects no call, does not vote on it, and
 * changes no statistics of the limit.
 */
function statusAfterReturn(limit: Limit<LimitStats>, after: number, nowSeconds: number): DescriptorDecision {
  const { requestsPerUnit, unit, name } = limit
  const resetSeconds = secondsUntilReset(nowSeconds, limit)
  const remaining = Math.max(0, requestsPerUnit - after)
  return { over: false, remaining, limit: { name, requestsPerUnit, unit, resetSeconds } }
}

/**
 * Records the hits of a call in the statistics before they are counted, except those that are given back. As
 * in envoyproxy/ratelimit, hits of a call that fails are included.
 */
function recordHits(matches: Matches, hits: readonly Hit[], allOrNothing: boolean): void {
  if (hits.length === 0) return
  let hitIndex = 0
  for (const match of matches) {
    if (match === undefined || match.limit.unlimited || needsAdmission(match, allOrNothing)) continue
    const counted = hits[hitIndex]?.hits ?? 0
    hitIndex += 1
    if (counted < 0) continue
    match.limit.stats.totalHits += counted
    match.limit.stats.calls += 1
  }
}

/** Builds the decision when all values and outcomes are there: at once, if none of them is a promise. */
function whenAll(
  values: readonly number[] | Promise<readonly number[]>,
  outcomes: readonly (readonly LimitOutcome[] | Promise<readonly LimitOutcome[]>)[],
  build: (values: readonly number[], outcomes: readonly (readonly LimitOutcome[])[]) => RateLimitDecision,
  failed: (error: unknown) => never,
): RateLimitDecision | Promise<RateLimitDecision> {
  const isCounted = !(values instanceof Promise)
  if (isCounted && outcomes.every(isSettled)) return build(values, outcomes)
  const [only, ...others] = outcomes
  if (isCounted && others.length === 0 && only instanceof Promise) {
    return only.then(outcome => build(values, [outcome]), failed)
  }
  return Promise.all([values, Promise.all(outcomes)]).then(([counted, all]) => build(counted, all), failed)
}

function isSettled(
  outcomes: readonly LimitOutcome[] | Promise<readonly LimitOutcome[]>,
): outcomes is readonly LimitOutcome[] {
  return !(outcomes instanceof Promise)
}

/** A descriptor that only quotas reject counts as a quota. */
function vote(votes: Votes, over: boolean, quota: boolean, overByQuota: boolean): void {
  if (quota) votes.quotas += 1
  if (overByQuota) votes.quotasOver += 1
  else if (over) votes.over += 1
}

/** Throws the three service errors of envoyproxy/ratelimit, with the same texts and in the same order. */
function checkRequest(
  request: DecisionRequest,
  rules: RuleSet<LimitStats> | undefined,
): asserts rules is RuleSet<LimitStats> {
  if (request.domain === '') throw new RequestError('rate limit domain must not be empty', false)
  if (request.descriptors.length === 0) {
    throw new RequestError('rate limit descriptor list must not be empty', false)
  }
  if (rules === undefined) throw new RequestError('no rate limit configuration loaded', false)
}
