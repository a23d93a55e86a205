import { hash } from 'node:crypto'
import type { LimitCheck, LimitOutcome } from '../counters/admission/limit-check.ts'
import type { Hit } from '../counters/counters.ts'
import type { Limit } from '../rules/limit.ts'
import { toAdmission } from '../rules/limit.ts'
import { expirySeconds, maxResetSeconds, secondsUntilReset, windowStart } from '../rules/window.ts'
import type { LimitStats } from '../stats/limit-stats.ts'
import { appendItem } from './append-item.ts'
import { decide, nearLimitThreshold } from './decide.ts'
import type { DecisionRequest, DescriptorDecision } from './decision.ts'
import type { DescriptorMatch, Matches } from './match-request.ts'

/** Limits of a call that admit it together: those of one descriptor, or of all its descriptors. */
interface Admission {
  readonly checks: readonly LimitCheck[]
  /** The limit of each check. */
  readonly limits: readonly Limit<LimitStats>[]
  /** The index of each check's descriptor. */
  readonly descriptorIndexes: readonly number[]
}

/** What a call counts: hits, which are only added, and the limits that admit it. */
export interface CallChecks {
  /** One for each match that is only counted, in order: a fixed window, whose check is one addition. */
  readonly hits: readonly Hit[]
  readonly admissions: readonly Admission[]
}

interface CheckOptions {
  readonly cacheKeyPrefix: string
  readonly nowSeconds: number
  /** Whether the descriptors of the request are counted together. */
  readonly allOrNothing: boolean
  /** How much longer the counters of the hits may be kept, in whole seconds. */
  readonly jitterSeconds: () => number
}

/** Returns whether the counters decide about the descriptor; otherwise they only add its hits. */
export function needsAdmission(match: NonNullable<DescriptorMatch>, allOrNothing: boolean): boolean {
  return allOrNothing || match.limit.admission !== undefined || match.limit.members !== undefined
}

const noHits: readonly Hit[] = []
const noAdmissions: readonly Admission[] = []

/** Returns what the matches of a request have counted. Lists without items are the same ones for every call. */
export function prepareChecks(request: DecisionRequest, matches: Matches, options: CheckOptions): CallChecks {
  let hits: Hit[] | undefined
  let admissions: Admission[] | undefined
  for (let descriptorIndex = 0; descriptorIndex < matches.length; descriptorIndex++) {
    const match = matches[descriptorIndex]
    if (match === undefined || match.limit.unlimited) continue
    const addend = request.descriptors[descriptorIndex]?.hitsAddend ?? Math.max(1, request.hitsAddend)
    if (needsAdmission(match, options.allOrNothing)) {
      admissions = appendItem(admissions, prepareAdmission(match, descriptorIndex, addend, options))
    } else hits = appendItem(hits, toHit(match, addend, options))
  }
  if (admissions !== undefined && options.allOrNothing) admissions = [joinAdmissions(admissions)]
  return { hits: hits ?? noHits, admissions: admissions ?? noAdmissions }
}

function toHit(
  { limit, baseKey }: NonNullable<DescriptorMatch>,
  hits: number,
  { cacheKeyPrefix, nowSeconds, jitterSeconds }: CheckOptions,
): Hit {
  return {
    key: `${cacheKeyPrefix}${baseKey}${windowStart(nowSeconds, limit)}`,
    hits,
    expirySeconds: expirySeconds(nowSeconds, limit),
    jitterSeconds: jitterSeconds(),
    limit: limit.requestsPerUnit,
    perSecond: isPerSecond(limit),
  }
}

/** Returns whether the hits of the limit are counted in the backend for limits per second, if there is one. */
export function isPerSecond({ unitSeconds, boundaries }: Limit<LimitStats>): boolean {
  return unitSeconds === 1 && boundaries === undefined
}

function joinAdmissions(admissions: readonly Admission[]): Admission {
  return {
    checks: admissions.flatMap(({ checks }) => checks),
    limits: admissions.flatMap(({ limits }) => limits),
    descriptorIndexes: admissions.flatMap(({ descriptorIndexes }) => descriptorIndexes),
  }
}

function prepareAdmission(
  { limit, baseKey }: NonNullable<DescriptorMatch>,
  descriptorIndex: number,
  hits: number,
  { cacheKeyPrefix, nowSeconds }: CheckOptions,
): Admission {
  const limits = limit.members ?? [limit]
  const tag = limit.members === undefined ? undefined : hashKey(baseKey)
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
      countRejected: each.countRejected === true,
    }
  })
  return { checks, limits, descriptorIndexes: limits.map(() => descriptorIndex) }
}

const tagLength = 22

/** Returns 132 bits of a hash of the domain and the entries, for the hash tag of a Redis Cluster. */
function hashKey(baseKey: string): string {
  return hash('sha256', baseKey, 'base64url').slice(0, tagLength)
}

/** The decision for a descriptor whose limits admit calls, and what it contributes to the request. */
export interface AdmittedDescriptor {
  readonly status: DescriptorDecision
  /** Whether one of the limits is a quota. */
  readonly quota: boolean
  /** Whether only quotas rejected the call. */
  readonly overByQuota: boolean
  /** The decision of each of its limits. */
  readonly verdicts: readonly Verdict[]
  /** Whether headers do not mention the limit of the status. */
  readonly hidden: boolean
}

interface RecordOptions {
  readonly nowSeconds: number
  readonly nearLimitRatio: number
  /** Whether every limit is a quota. */
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
    record(limit, check, outcome, options.nearLimitRatio)
    const resetSeconds = findResetSeconds(limit, check, outcome, options.nowSeconds)
    return { limit, outcome, resetSeconds, delays: delaysNext(check, outcome, checks, outcomes) }
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
  /** Whether the limit would reject the same call if it came again at once, after a rejection. */
  readonly delays: boolean
}

/** A limit that admits a call, and counts it although another one rejects it, may have no room for the next one. */
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
 * Updates the statistics of one limit. The statistics of limits that admit a rejected call count its hits, also
 * if their counters do not.
 */
function record(
  { stats, shadowMode }: Limit<LimitStats>,
  check: LimitCheck,
  outcome: LimitOutcome,
  ratio: number,
) {
  const { hits, burst: capacity } = check
  stats.totalHits += hits
  stats.calls += 1
  if (!outcome.admitted) {
    stats.overLimit += hits
    if (outcome.fromLocalCache === true) stats.overLimitWithLocalCache += hits
    if (shadowMode) stats.shadowMode += hits
    return
  }
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
  { waitSeconds }: LimitOutcome,
  nowSeconds: number,
): number | undefined {
  if (algorithm === 'FixedWindow') return secondsUntilReset(nowSeconds, limit)
  return waitSeconds === undefined ? undefined : Math.min(maxResetSeconds, Math.ceil(waitSeconds))
}

/**
 * Returns the decision by the limit with the longest wait until the same call would be admitted, or otherwise by the
 * limit with the fewest remaining hits. Shadow limits decide only where there are no others.
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
  const { name, requestsPerUnit, unit } = limit
  const over = rejecting.length > 0
  const isQuota = (verdict: Verdict) => quotaMode || verdict.limit.quotaMode
  return {
    status: {
      over,
      remaining: Math.max(0, outcome.remaining),
      limit: { name, requestsPerUnit, unit, resetSeconds },
    },
    quota: verdicts.some(isQuota),
    overByQuota: over && rejecting.every(isQuota),
    verdicts,
    hidden: limit.headers === false,
  }
}

function resetOrNever({ resetSeconds }: Verdict): number {
  return resetSeconds ?? Number.POSITIVE_INFINITY
}
