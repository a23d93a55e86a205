import type { Clock } from '@tollway/chassis/clock.ts'
import type { Span } from '@tollway/chassis/tracing/tracing.ts'
import type { MemberOutcome } from '../counters/admission/member.ts'
import { type Hit, maxCount } from '../counters/counters.ts'
import { MalformedKeyError } from '../counters/memcached/protocol/legal-key.ts'
import type { RuleSet } from '../rules/compile.ts'
import type { Limit } from '../rules/limit.ts'
import { type Match, match, overrideLimit } from '../rules/match.ts'
import { replacedLimits } from '../rules/replaces.ts'
import type { LimitStats, LimitStatsTable } from '../stats/registry/limit-stats.ts'
import type { Stats } from '../stats/registry/stats.ts'
import type { StartCounting } from '../tracing/spans.ts'
import {
  type Admission,
  type AdmittedDescriptor,
  admissionsOf,
  isAdmitted,
  recordAdmission,
} from './admission.ts'
import { answerExtras } from './answers/answer-extras.ts'
import { listLimits } from './answers/list-limits.ts'
import { appended } from './appended.ts'
import { type Counting, knownOver } from './counting.ts'
import { decide, isOverall, nearLimitThreshold, shadowedHits, type Votes } from './decide.ts'
import {
  type Decision,
  type DecisionRequest,
  type DescriptorDecision,
  type DescriptorRequest,
  RequestError,
} from './decision.ts'
import type { ObserverSlot } from './decision-observer.ts'
import { dynamicMetadata } from './dynamic-metadata.ts'
import { type ResponseHeaderNames, responseHeaders } from './response-headers.ts'
import { expirySeconds, secondsUntilReset, windowStart } from './window.ts'

/** Answers rate limit calls: match, count, decide, record. */
export interface Limiter {
  /**
   * Decides a call. The decision is synchronous if the counters are, which saves a turn of the microtask
   * queue. Throws or rejects with a `RequestError`, or with the `CountersError` of a backend that failed.
   * With a span, counting is a child span.
   */
  decide(request: DecisionRequest, span?: Span): Decision | Promise<Decision>
}

export interface LimiterOptions {
  /** Returns the active rules; undefined before the first configuration. Each call uses one rule set only. */
  readonly rules: () => RuleSet<LimitStats> | undefined
  readonly counting: Counting
  /** Starts the spans of counting; none when left out. */
  readonly startCounting?: StartCounting | undefined
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
  /** The names of the reference's headers of each answer; none when left out. */
  readonly headerNames?: ResponseHeaderNames | undefined
  /** Whether answers have the headers of the IETF draft; false when left out. */
  readonly ietfHeaders?: boolean
  /** Whether a refusal has a body that names the limits; false when left out. */
  readonly problemDetails?: boolean
  /** Whether each answer has metadata about its request and rules. */
  readonly dynamicMetadata: boolean
  /** Receives the decisions; none when left out. */
  readonly observation?: ObserverSlot | undefined
}

type Mutable<T> = { -readonly [Name in keyof T]: T[Name] }

/** The remaining requests of each OK descriptor without a limit. */
const unlimitedRemaining = 0xffffffff

const noLimit: DescriptorDecision = { over: false, remaining: 0 }
const unlimited: DescriptorDecision = { over: false, remaining: unlimitedRemaining }

const unobserved: ObserverSlot = { observer: undefined }

type Found = Match<LimitStats> | undefined

/** The match of each descriptor; undefined if none matched, or if another descriptor's match replaces it. */
type Matches = readonly Found[]

/** A call in progress, with the hits that are counted for it. */
interface Call {
  readonly request: DecisionRequest
  readonly matches: Matches
  readonly batch: readonly Hit[]
  readonly nowSeconds: number
}

const nothingAdmitted: ReadonlyMap<number, AdmittedDescriptor> = new Map()

export function createLimiter(options: LimiterOptions): Limiter {
  const { clock, counting, startCounting, stats, limitStats, quotaMode, shadowMode, headerNames } = options
  const { cacheKeyPrefix, nearLimitRatio, observation = unobserved } = options
  const listsLimits = options.ietfHeaders === true || options.problemDetails === true
  const isPlain = headerNames === undefined && !options.dynamicMetadata && !listsLimits
  const serviceErrors = stats.counter('ratelimit.service.call.should_rate_limit.service_error')
  const globalShadow = stats.counter('ratelimit.service.global_shadow_mode')

  function matchesOf(request: DecisionRequest, rules: RuleSet<LimitStats>): Matches {
    const { domain, descriptors } = request
    if (!rules.domains.has(domain)) {
      // The reference counts each descriptor.
      limitStats.domainNotFound(domain).value += descriptors.length
      return descriptors.map(() => undefined)
    }
    const matches = descriptors.map((descriptor, index) =>
      descriptor.limit === undefined
        ? match(rules, domain, descriptor.entries, limitStats.attachRequested)
        : matchOwnLimit(domain, descriptor, index, limitStats),
    )
    return matches.some(mayReplace) ? withoutReplaced(matches) : matches
  }

  /** Returns one hit for each match that is only counted. */
  function hitsOf(request: DecisionRequest, matches: Matches, nowSeconds: number, allOrNothing: boolean) {
    let batch: Hit[] | undefined
    for (let index = 0; index < matches.length; index++) {
      const found = matches[index]
      if (found === undefined || found.limit.unlimited || isAdmitted(found, allOrNothing)) continue
      const { requestsPerUnit, unitSeconds, boundaries, stats } = found.limit
      const hits = request.descriptors[index]?.hitsAddend ?? Math.max(1, request.hitsAddend)
      const key = `${cacheKeyPrefix}${found.stem}${windowStart(nowSeconds, found.limit)}`
      batch = appended(batch, {
        key,
        hits,
        expirySeconds: expirySeconds(nowSeconds, found.limit),
        jitterSeconds: jitterSeconds(options),
        limit: requestsPerUnit,
        perSecond: unitSeconds === 1 && boundaries === undefined,
      })
      stats.totalHits += hits
    }
    return batch ?? noHits
  }

  /**
   * Builds the decision. `batch` and `values` have one item for each match that is only counted, in order.
   *
   * @param admitted the decisions for the other descriptors, by their index
   */
  function answer(
    { request, matches, batch, nowSeconds }: Call,
    values: readonly number[],
    admitted = nothingAdmitted,
  ): Decision {
    const votes = { over: 0, quotas: 0, quotasOver: 0 }
    let place = 0
    const statuses = matches.map((found, index) => {
      if (found?.limit.unlimited) return unlimited
      const decided = admitted === nothingAdmitted ? undefined : admitted.get(index)
      if (decided !== undefined) return vote(votes, decided)
      let status = noLimit
      if (found !== undefined) {
        status = record(found.limit, batch[place]?.hits ?? 0, values[place] ?? maxCount, nowSeconds)
        place += 1
      }
      // In the global quota mode a descriptor without a limit is a quota too.
      const quota = quotaMode || found?.limit.quotaMode === true
      if (quota) votes.quotas += 1
      if (status.over && quota) votes.quotasOver += 1
      else if (status.over) votes.over += 1
      return status
    })
    const over = isOverall(votes)
    if (over && shadowMode) globalShadow.value += 1
    observation.observer?.decided(request, matches, statuses, nowSeconds)
    const decision = { over: over && !shadowMode, statuses }
    if (isPlain) return decision
    return { ...decision, ...extras({ request, matches, nowSeconds }, decision, admitted) }
  }

  /** Counts the hits and admits the rest of the call, both at once, and then builds the decision. */
  function answerAdmitted(
    call: Call,
    admissions: readonly Admission[],
    values: readonly number[] | Promise<readonly number[]>,
  ): Decision | Promise<Decision> {
    const { nowSeconds } = call
    const outcomes = admissions.map(({ members }) => counting.admit(members, clock.nowMs()))
    const build = (counted: readonly number[], all: readonly (readonly MemberOutcome[])[]) => {
      const recorded = admissions.map((admission, index) =>
        recordAdmission(admission, all[index] ?? [], { nowSeconds, nearLimitRatio, quotaMode }),
      )
      return answer(call, counted, new Map(recorded.flatMap(descriptors => [...descriptors])))
    }
    return whenAll(values, outcomes, build, failed)
  }

  /** Separate, so that only asynchronous calls allocate closures. */
  function answerLater(call: Call, values: Promise<readonly number[]>): Promise<Decision> {
    return values.then(later => answer(call, later), failed)
  }

  function extras(
    { request, matches, nowSeconds }: Pick<Call, 'request' | 'matches' | 'nowSeconds'>,
    { over, statuses }: Decision,
    admitted: ReadonlyMap<number, AdmittedDescriptor>,
  ) {
    const isOver = (index: number) =>
      statuses[index]?.over === true && !(quotaMode || matches[index]?.limit.quotaMode === true)
    const isHidden = (index: number) => admitted.get(index)?.hidden ?? matches[index]?.limit.headers === false
    const shown = statuses.map((status, index) => (isHidden(index) ? noLimit : status))
    const ofPassed = matches.flatMap((found, index) => {
      // An unlimited rule has no limit that a call could pass: the reference leaves its metadata out.
      const passed = found?.limit.unlimited === false && statuses[index]?.over === false
      return passed && found.limit.metadata ? [found.limit.metadata] : []
    })
    const limits = listsLimits ? listLimits(matches, statuses, admitted, nowSeconds) : []
    const { headers, body } = answerExtras(limits, over, options)
    const reference = headerNames === undefined ? [] : responseHeaders(shown, isOver, headerNames)
    return {
      headers: [...reference, ...headers],
      ...(body !== undefined && { body }),
      ...(options.dynamicMetadata && { metadata: dynamicMetadata(request, ofPassed) }),
    }
  }

  function record(limit: Limit<LimitStats>, hits: number, after: number, nowSeconds: number) {
    const { requestsPerUnit, unit, name, stats } = limit
    const outcome = decide(requestsPerUnit, nearLimitThreshold(requestsPerUnit, nearLimitRatio), hits, after)
    stats.overLimit += outcome.overLimitHits
    if (after === knownOver) stats.overLimitWithLocalCache += outcome.overLimitHits
    stats.nearLimit += outcome.nearLimitHits
    stats.withinLimit += outcome.withinLimitHits
    const shadowed = outcome.over && limit.shadowMode
    if (shadowed) stats.shadowMode += shadowedHits(requestsPerUnit, hits, after)
    const resetSeconds = secondsUntilReset(nowSeconds, limit)
    return {
      over: outcome.over && !shadowed,
      remaining: outcome.remaining,
      limit: { name, requestsPerUnit, unit, resetSeconds },
    }
  }

  function count(batch: readonly Hit[], nowSeconds: number, span: Span | undefined) {
    if (batch.length === 0) return []
    if (span === undefined || startCounting === undefined) return counting.add(batch, nowSeconds)
    return startCounting(span, batch).run(() => counting.add(batch, nowSeconds))
  }

  function failed(error: unknown): never {
    if (error instanceof RequestError || error instanceof MalformedKeyError) serviceErrors.value += 1
    throw error
  }

  return {
    decide(request, span) {
      try {
        const rules = options.rules()
        check(request, rules)
        const matches = matchesOf(request, rules)
        const nowSeconds = Math.floor(clock.nowMs() / 1000)
        const allOrNothing = rules.domains.get(request.domain)?.table.allOrNothing === true
        const admissions = admissionsOf(request, matches, { cacheKeyPrefix, nowSeconds, allOrNothing })
        const batch = hitsOf(request, matches, nowSeconds, allOrNothing)
        const values = count(batch, nowSeconds, span)
        const call = { request, matches, batch, nowSeconds }
        if (admissions.length > 0) return answerAdmitted(call, admissions, values)
        return values instanceof Promise ? answerLater(call, values) : answer(call, values)
      } catch (error) {
        return failed(error)
      }
    },
  }
}

function jitterSeconds({ random, expirationJitterMaxSeconds }: LimiterOptions): number {
  return expirationJitterMaxSeconds === 0 ? 0 : Math.floor(random() * expirationJitterMaxSeconds)
}

const noHits: readonly Hit[] = []

/** Builds the decision when all parts are there: at once, if none of them is a promise. */
function whenAll(
  values: readonly number[] | Promise<readonly number[]>,
  outcomes: readonly (readonly MemberOutcome[] | Promise<readonly MemberOutcome[]>)[],
  build: (values: readonly number[], outcomes: readonly (readonly MemberOutcome[])[]) => Decision,
  failed: (error: unknown) => never,
): Decision | Promise<Decision> {
  const isCounted = !(values instanceof Promise)
  if (isCounted && outcomes.every(isSettled)) return build(values, outcomes)
  const [only, ...others] = outcomes
  if (isCounted && others.length === 0 && only instanceof Promise) {
    return only.then(outcome => build(values, [outcome]), failed)
  }
  return Promise.all([values, Promise.all(outcomes)]).then(([counted, all]) => build(counted, all), failed)
}

function isSettled(
  outcomes: readonly MemberOutcome[] | Promise<readonly MemberOutcome[]>,
): outcomes is readonly MemberOutcome[] {
  return !(outcomes instanceof Promise)
}

/** Adds the votes of a descriptor, and returns its status. */
function vote(votes: Mutable<Votes>, { status, quota, overByQuota }: AdmittedDescriptor): DescriptorDecision {
  if (quota) votes.quotas += 1
  if (overByQuota) votes.quotasOver += 1
  else if (status.over) votes.over += 1
  return status
}

function mayReplace(found: Found): boolean {
  return found !== undefined && found.limit.replaces.length > 0
}

/** Returns the limit that a caller sent. */
function matchOwnLimit(
  domain: string,
  { entries, limit }: DescriptorRequest,
  index: number,
  limitStats: LimitStatsTable,
): Found {
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

/** An unlimited rule cannot be replaced. Of several limits, those are left out that are replaced. */
function withoutReplaced(matches: Matches): Matches {
  const replaced = replacedLimits(matches)
  return matches.map(found => {
    if (found === undefined || found.limit.unlimited) return found
    const { limit } = found
    if (limit.members === undefined) return replaced.has(limit.name) ? undefined : found
    const members = limit.members.filter(({ name }) => !replaced.has(name))
    return members.length === 0 ? undefined : { ...found, limit: { ...limit, members } }
  })
}

/** Checks the reference's three service errors, with its texts and in its order. */
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
