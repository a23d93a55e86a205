import { hash } from 'node:crypto'
import type { Member, MemberOutcome } from '../counters/admission/member.ts'
import type { Limit } from '../rules/limit.ts'
import { admissionOf } from '../rules/limit.ts'
import { expirySeconds, maxResetSeconds, secondsUntilReset, windowStart } from '../rules/window.ts'
import type { LimitStats } from '../stats/limit-stats.ts'
import { decide, nearLimitThreshold } from './decide.ts'
import type { DecisionRequest, DescriptorDecision } from './decision.ts'
import type { Found, Matches } from './match-request.ts'

/** Limits of a call that admit it together: those of one descriptor, or of all its descriptors. */
export interface Admission {
  readonly members: readonly Member[]
  /** The limit of each member. */
  readonly limits: readonly Limit<LimitStats>[]
  /** The index of each member's descriptor. */
  readonly places: readonly number[]
}

export interface AdmissionOptions {
  readonly cacheKeyPrefix: string
  readonly nowSeconds: number
  /** Whether the descriptors of the request are counted together. */
  readonly allOrNothing: boolean
}

/** Returns whether the counters decide about the descriptor; otherwise they only add its hits. */
export function needsAdmission(found: NonNullable<Found>, allOrNothing: boolean): boolean {
  if (found.limit.unlimited) return false
  return allOrNothing || found.limit.admission !== undefined || found.limit.members !== undefined
}

const none: readonly Admission[] = []

/** Returns the admissions that a call needs; the same empty list for every call that needs none. */
export function admissionsOf(
  request: DecisionRequest,
  matches: Matches,
  options: AdmissionOptions,
): readonly Admission[] {
  let admissions: Admission[] | undefined
  for (let place = 0; place < matches.length; place++) {
    const found = matches[place]
    if (found === undefined || !needsAdmission(found, options.allOrNothing)) continue
    const hits = request.descriptors[place]?.hitsAddend ?? Math.max(1, request.hitsAddend)
    admissions ??= []
    admissions.push(admissionOfDescriptor(found, place, hits, options))
  }
  if (admissions === undefined) return none
  return options.allOrNothing ? [joined(admissions)] : admissions
}

function joined(admissions: readonly Admission[]): Admission {
  return {
    members: admissions.flatMap(({ members }) => members),
    limits: admissions.flatMap(({ limits }) => limits),
    places: admissions.flatMap(({ places }) => places),
  }
}

function admissionOfDescriptor(
  { limit, stem }: NonNullable<Found>,
  place: number,
  hits: number,
  { cacheKeyPrefix, nowSeconds }: AdmissionOptions,
): Admission {
  const limits = limit.members ?? [limit]
  const tag = limit.members === undefined ? undefined : hashOf(stem)
  const members = limits.map((each): Member => {
    const { algorithm, capacity, ticksPerSecond, keySuffix } = each.admission ?? admissionOf(each)
    const start = algorithm === 'FixedWindow' ? `${windowStart(nowSeconds, each)}` : ''
    const alone = algorithm === 'FixedWindow' ? `${stem}${start}` : `${stem}${keySuffix}`
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
  return { members, limits, places: limits.map(() => place) }
}

const tagLength = 22

/** Returns 132 bits of a hash of the domain and the entries, for the hash tag of a Redis Cluster. */
function hashOf(stem: string): string {
  return hash('sha256', stem, 'base64url').slice(0, tagLength)
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

export interface RecordOptions {
  readonly nowSeconds: number
  readonly nearLimitRatio: number
  /** Whether every limit is a quota. */
  readonly quotaMode: boolean
}

/** Updates the statistics of an admission's limits, and returns the decision for each of its descriptors. */
export function recordAdmission(
  { members, limits, places }: Admission,
  outcomes: readonly MemberOutcome[],
  options: RecordOptions,
): ReadonlyMap<number, AdmittedDescriptor> {
  const verdicts = limits.map((limit, index) => {
    const [member, outcome] = [members[index] as Member, outcomes[index] as MemberOutcome]
    record(limit, member, outcome, options.nearLimitRatio)
    const resetSeconds = resetSecondsOf(limit, member, outcome, options.nowSeconds)
    return { limit, outcome, resetSeconds, delays: delaysNext(member, outcome, members, outcomes) }
  })
  const [first] = places
  if (first !== undefined && places.every(place => place === first)) {
    return new Map([[first, descriptorOf(verdicts, options.quotaMode)]])
  }
  const descriptors = new Map<number, AdmittedDescriptor>()
  for (const [place, indexes] of Map.groupBy(places.keys(), index => places[index] as number)) {
    const own = indexes.map(index => verdicts[index] as Verdict)
    descriptors.set(place, descriptorOf(own, options.quotaMode))
  }
  return descriptors
}

export interface Verdict {
  readonly limit: Limit<LimitStats>
  readonly outcome: MemberOutcome
  /** Undefined if the limit would never admit the call. */
  readonly resetSeconds: number | undefined
  /** Whether the limit would reject the same call if it came again at once, after a rejection. */
  readonly delays: boolean
}

/** A limit that admits a call, and counts it although another one rejects it, may have no room for the next one. */
function delaysNext(
  { hits, countRejected }: Member,
  { admitted, remaining }: MemberOutcome,
  members: readonly Member[],
  outcomes: readonly MemberOutcome[],
): boolean {
  if (!admitted) return true
  if (!countRejected || remaining >= Math.max(1, hits)) return false
  return members.some(({ shadow }, index) => !(shadow || outcomes[index]?.admitted))
}

/**
 * Updates the statistics of one limit. The statistics of limits that admit a rejected call count its hits, also
 * if their counters do not.
 */
function record(
  { stats, shadowMode }: Limit<LimitStats>,
  member: Member,
  outcome: MemberOutcome,
  ratio: number,
) {
  const { hits, burst: capacity } = member
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

function resetSecondsOf(
  limit: Limit<LimitStats>,
  { algorithm }: Member,
  { waitSeconds }: MemberOutcome,
  nowSeconds: number,
): number | undefined {
  if (algorithm === 'FixedWindow') return secondsUntilReset(nowSeconds, limit)
  return waitSeconds === undefined ? undefined : Math.min(maxResetSeconds, Math.ceil(waitSeconds))
}

/**
 * Returns the decision by the limit with the longest wait until the same call would be admitted, or otherwise by the
 * limit with the fewest remaining hits. Shadow limits decide only where there are no others.
 */
function descriptorOf(verdicts: readonly Verdict[], quotaMode: boolean): AdmittedDescriptor {
  const deciding = verdicts.filter(({ limit }) => !limit.shadowMode)
  const refusing = deciding.filter(({ outcome }) => !outcome.admitted)
  const candidates = deciding.length === 0 ? verdicts : deciding
  const chosen =
    refusing.length > 0
      ? deciding.filter(({ delays }) => delays).reduce((a, b) => (waitOf(b) > waitOf(a) ? b : a))
      : candidates.reduce((a, b) => (b.outcome.remaining < a.outcome.remaining ? b : a))
  const { limit, outcome, resetSeconds } = chosen
  const { name, requestsPerUnit, unit } = limit
  const over = refusing.length > 0
  const isQuota = (verdict: Verdict) => quotaMode || verdict.limit.quotaMode
  return {
    status: {
      over,
      remaining: Math.max(0, outcome.remaining),
      limit: { name, requestsPerUnit, unit, resetSeconds },
    },
    quota: verdicts.some(isQuota),
    overByQuota: over && refusing.every(isQuota),
    verdicts,
    hidden: limit.headers === false,
  }
}

function waitOf({ resetSeconds }: Verdict): number {
  return resetSeconds ?? Number.POSITIVE_INFINITY
}
