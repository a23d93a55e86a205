import { hash } from 'node:crypto'
import type { LimitCheck, LimitOutcome } from '../counters/admission/limit-check.ts'
import type { Hit } from '../counters/counters.ts'
import { nameCapacity } from '../rules/bucket.ts'
import { isConcurrency } from '../rules/fields.ts'
import { type Limit, toAdmission } from '../rules/limit.ts'
import { expirySeconds, maxResetSeconds, secondsUntilReset, windowStart } from '../rules/window.ts'
import type { LimitStats } from '../stats/limit-stats.ts'
import { appendItem } from './append-item.ts'
import { decide, nearLimitThreshold } from './decide.ts'
import { countHits, type DecisionRequest, type DescriptorDecision } from './decision.ts'
import type { DescriptorMatch, Matches } from './match-request.ts'

/**
 * Limits that admit a call together: the limits of one descriptor or, with `allOrNothing`, of all
 * descriptors.
 */
interface Admission {
  readonly checks: readonly LimitCheck[]
  readonly limits: readonly Limit<LimitStats>[]
  readonly descriptorIndexes: readonly number[]
}

/** What a call asks of the counters: to add hits, and to decide about admissions. */
export interface CallChecks {
  /**
   * One hit for each match without an admission (see `needsAdmission`), in the order of the descriptors. Its
   * limit has a fixed window, for which adding the hits is enough.
   */
  readonly hits: readonly Hit[]
  readonly admissions: readonly Admission[]
}

interface CheckOptions {
  readonly cacheKeyPrefix: string
  readonly nowSeconds: number
  /** Whether the descriptors of the request are counted together. */
  readonly allOrNothing: boolean
  /** Returns how many whole seconds longer than its window the counter of a hit is kept. */
  readonly jitterSeconds: () => number
}

/** Returns whether the counters decide about the descriptor; otherwise they only add its hits. */
export function needsAdmission(match: NonNullable<DescriptorMatch>, allOrNothing: boolean): boolean {
  return allOrNothing || match.limit.admission !== undefined || match.limit.members !== undefined
}

const noHits: readonly Hit[] = []
const noAdmissions: readonly Admission[] = []

/** Returns what to ask the counters for the matches of a request. Every call shares the same empty lists. */
export function prepareChecks(request: DecisionRequest, matches: Matches, options: CheckOptions): CallChecks {
  let hits: Hit[] | undefined
  let admissions: Admission[] | undefined
  for (let descriptorIndex = 0; descriptorIndex < matches.length; descriptorIndex++) {
    const match = matches[descriptorIndex]
    if (match === undefined || match.limit.unlimited) continue
    const addend = countHits(request, descriptorIndex)
    if (needsAdmission(match, options.allOrNothing)) {
      admissions = appendItem(
        admissions,
        prepareAdmission(match, addend, options, { descriptorIndex, purpose: request.purpose }),
      )
    } else hits = appendItem(hits, toHit(match, addend, options, request.purpose))
  }
  if (admissions !== undefined && options.allOrNothing) admissions = [joinAdmissions(admissions)]
  return { hits: hits ?? noHits, admissions: admissions ?? noAdmissions }
}

function toHit(
  { limit, baseKey }: NonNullable<DescriptorMatch>,
  hits: number,
  { cacheKeyPrefix, nowSeconds, jitterSeconds }: CheckOptions,
  purpose: DecisionRequest['purpose'],
): Hit {
  const isLeased = limit.counting === 'Leased' && purpose !== 'report'
  return {
    key: `${cacheKeyPrefix}${baseKey}${windowStart(nowSeconds, limit)}`,
    hits,
    expirySeconds: expirySeconds(nowSeconds, limit),
    jitterSeconds: jitterSeconds(),
    limit: limit.requestsPerUnit,
    perSecond: isPerSecond(limit),
    leased: isLeased,
  }
}

/**
 * Returns whether the backend for limits per second, if there is one, counts the hits of the limit. It grants no
 * leases.
 */
export function isPerSecond({ unitSeconds, boundaries, counting }: Limit<LimitStats>): boolean {
  return unitSeconds === 1 && boundaries === undefined && counting !== 'Leased'
}

function joinAdmissions(admissions: readonly Admission[]): Admission {
  return {
    checks: admissions.flatMap(({ checks }) => checks),
    limits: admissions.flatMap(({ limits }) => limits),
    descriptorIndexes: admissions.flatMap(({ descriptorIndexes }) => descriptorIndexes),
  }
}

/** Returns the checks of the limits that match one descriptor. */
export function prepareAdmission(
  { limit, baseKey }: NonNullable<DescriptorMatch>,
  hits: number,
  { cacheKeyPrefix, nowSeconds }: Pick<CheckOptions, 'cacheKeyPrefix' | 'nowSeconds'>,
  { descriptorIndex = 0, purpose }: { descriptorIndex?: number; purpose?: DecisionRequest['purpose'] } = {},
): Admission {
  const limits = limit.members ?? [limit]
  // By its tag, a Redis Cluster keeps the keys of a rule's members on one node.
  const tag = limit.members === undefined ? undefined : hashText(baseKey)
  const checks = limits.map((each): LimitCheck => {
    const { algorithm, capacity, ticksPerSecond, keySuffix } = each.admission ?? toAdmission(each)
    const start = algorithm === 'FixedWindow' ? `${windowStart(nowSeconds, each)}` : ''
    const alone = algorithm === 'FixedWindow' ? `${baseKey}${start}` : `${baseKey}${keySuffix}`
    const together = start === '' ? `{${tag}}:${keySuffix}` : `{${tag}}:${keySuffix}:${start}`
    return {
      key: `${cacheKeyPrefix}${tag === undefined ? alone : together}`,
      algorithm,
      hits,
      limit: each.requestsPerUnit,
      burst: capacity,
      windowTicks: each.unitSeconds * ticksPerSecond,
      ticksPerSecond,
      expirySeconds: expirySeconds(nowSeconds, each),
      shadow: each.shadowMode,
      countRejected: each.countRejected === true || purpose === 'report',
      ...(each.counting === 'Leased' && { leased: true }),
      ...(each.delivery === 'Quota' && { quota: nameCapacity(baseKey, each) }),
    }
  })
  return { checks, limits, descriptorIndexes: limits.map(() => descriptorIndex) }
}

const hashLength = 22

/** Returns 132 bits of a hash, in characters of a URL. */
export function hashText(text: string): string {
  return hash('sha256', text, 'base64url').slice(0, hashLength)
}

/** A descriptor's decision by admission, and how it counts in the decision for the request. */
export interface AdmittedDescriptor {
  readonly status: DescriptorDecision
  readonly quota: boolean
  /** Whether the call was rejected, and only by quotas. */
  readonly overByQuota: boolean
  readonly verdicts: readonly Verdict[]
  /** Whether headers leave out the limit in `status`, because the limit has `headers: false`. */
  readonly hidden: boolean
}

interface RecordOptions {
  readonly nowSeconds: number
  readonly nearLimitRatio: number
  readonly quotaMode: boolean
}

/** Updates the statistics of an admission's limits, and returns the decision for each of its descriptors. */
export function recordAdmission(
  { checks, limits, descriptorIndexes }: Admission,
  outcomes: readonly LimitOutcome[],
  options: RecordOptions,
): ReadonlyMap<number, AdmittedDescriptor> {
  const verdicts = limits.map((limit, index) => {
    const [check, outcome] = [checks[index] as LimitCheck, outcomes[index] as LimitOutcome]
    recordHits(limit, check, outcome, options.nearLimitRatio)
    const resetSeconds = findResetSeconds(limit, check, outcome, options.nowSeconds)
    const delays = delaysNext(check, outcome, checks, outcomes)
    return { limit, outcome, resetSeconds, delays, givesBack: check.hits < 0 }
  })
  const [first] = descriptorIndexes
  if (first !== undefined && descriptorIndexes.every(descriptorIndex => descriptorIndex === first)) {
    return new Map([[first, decideDescriptor(verdicts, options.quotaMode)]])
  }
  const descriptors = new Map<number, AdmittedDescriptor>()
  for (const [descriptorIndex, indexes] of Map.groupBy(
    descriptorIndexes.keys(),
    index => descriptorIndexes[index] as number,
  )) {
    const own = indexes.map(index => verdicts[index] as Verdict)
    descriptors.set(descriptorIndex, decideDescriptor(own, options.quotaMode))
  }
  return descriptors
}

interface Verdict {
  readonly limit: Limit<LimitStats>
  readonly outcome: LimitOutcome
  /** Undefined if the limit would never admit the call. */
  readonly resetSeconds: number | undefined
  /** Whether the limit would reject the same call sent again at once after a rejection. */
  readonly delays: boolean
  /** Whether the call gives hits back to the limit, which then does not vote on the call. */
  readonly givesBack: boolean
}

/**
 * Returns `Verdict.delays`. A limit that admits a call can delay the next one too: with `countRejected`, it
 * counts a call that another limit rejects, and may then have no room for the same call again.
 */
function delaysNext(
  { hits, countRejected }: LimitCheck,
  { admitted, remaining }: LimitOutcome,
  checks: readonly LimitCheck[],
  outcomes: readonly LimitOutcome[],
): boolean {
  if (!admitted) return true
  if (!countRejected || remaining >= Math.max(1, hits)) return false
  return checks.some(({ shadow }, index) => !(shadow || outcomes[index]?.admitted))
}

/**
 * Updates the statistics of one limit, except for hits that are given back. If the limit admits a call that
 * another limit rejects, its statistics include the hits, even if its counter does not.
 */
export function recordHits(
  { stats, shadowMode }: Limit<LimitStats>,
  check: LimitCheck,
  outcome: LimitOutcome,
  ratio: number,
) {
  const { hits } = check
  if (hits < 0) return
  stats.totalHits += hits
  stats.calls += 1
  if (!outcome.admitted) {
    stats.overLimit += hits
    if (outcome.fromLocalCache === true) stats.overLimitWithLocalCache += hits
    if (shadowMode) stats.shadowMode += hits
    return
  }
  const capacity = outcome.shareSize ?? check.burst
  const after = Math.max(hits, capacity - Math.max(0, outcome.remaining))
  const { nearLimitHits, withinLimitHits } = decide(
    capacity,
    nearLimitThreshold(capacity, ratio),
    hits,
    after,
  )
  stats.nearLimit += nearLimitHits
  stats.withinLimit += withinLimitHits
}

function findResetSeconds(
  limit: Limit<LimitStats>,
  { algorithm }: LimitCheck,
  { waitSeconds, shareSize }: LimitOutcome,
  nowSeconds: number,
): number | undefined {
  if (algorithm === 'FixedWindow' && shareSize === undefined) return secondsUntilReset(nowSeconds, limit)
  return waitSeconds === undefined ? undefined : Math.min(maxResetSeconds, Math.ceil(waitSeconds))
}

/**
 * Returns the decision for a descriptor. If the call is rejected, `status` shows the limit with the longest
 * wait until it would admit the same call; otherwise the limit with the fewest remaining hits. Limits in
 * shadow mode are shown only where there are no others.
 */
function decideDescriptor(verdicts: readonly Verdict[], quotaMode: boolean): AdmittedDescriptor {
  const deciding = verdicts.filter(({ limit }) => !limit.shadowMode)
  const rejecting = deciding.filter(({ outcome }) => !outcome.admitted)
  const candidates = deciding.length === 0 ? verdicts : deciding
  const chosen =
    rejecting.length > 0
      ? deciding.filter(({ delays }) => delays).reduce((a, b) => (resetOrNever(b) > resetOrNever(a) ? b : a))
      : candidates.reduce((a, b) => (b.outcome.remaining < a.outcome.remaining ? b : a))
  const { limit, outcome, resetSeconds } = chosen
  const { name, requestsPerUnit } = limit
  const unit = isConcurrency(limit) ? undefined : limit.unit
  const over = rejecting.length > 0
  const isQuota = (verdict: Verdict) => quotaMode || verdict.limit.quotaMode
  return {
    status: {
      over,
      remaining: Math.max(0, outcome.remaining),
      limit: { name, requestsPerUnit, unit, resetSeconds },
    },
    quota: verdicts.some(verdict => isQuota(verdict) && !verdict.givesBack),
    overByQuota: over && rejecting.every(isQuota),
    verdicts,
    hidden: limit.headers === false,
  }
}

function resetOrNever({ resetSeconds }: Verdict): number {
  return resetSeconds ?? Number.POSITIVE_INFINITY
}
