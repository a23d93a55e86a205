import type { Clock } from '@tollway/chassis/clock.ts'
import { type BucketShares, bucketGrantMs } from '../counters/bucket-shares.ts'
import { CountersError } from '../counters/counters.ts'
import type { QuotaCapacity } from '../rules/bucket.ts'
import { type Member, type ShareHolder, type ShareReport, Shares } from '../shares/shares.ts'

/** What a proxy may use for a time. */
export interface PodGrant {
  readonly amount: number
  readonly ttlSeconds: number
}

interface PodBucketsOptions {
  readonly shares: BucketShares
  /** Names this process among all that share the counters, and among its earlier runs. */
  readonly pod: string
  readonly clock: Clock
  /** Called when the grants of the bucket's proxies should be revised. */
  readonly onChange: (bucket: PodBucket) => void
  /** Called before a bucket is opened while there is none. */
  readonly onFirst?: () => void
  /** The most buckets that proxies can open. One stays for some seconds after its last proxy has gone. */
  readonly maxBuckets?: number
}

/** Three reports of an Envoy. */
export const proxyTtlMs = 15_000
/** An assignment reaches its proxy within this time, and its time to live begins then. */
export const transportMs = 1_000
const minIdleMs = 60_000
const maxIdleMs = 3_600_000
/** A demand that differs by less than one part of this many is the same: load always varies a little. */
const unchangedParts = 50
/** How often a process renews its part of a bucket, and how often at most if it lacks something. */
const renewEveryMs = 2_500
const renewSoonMs = 500
/** A returning proxy that used more than it can get here is told that at its next report, or after this time. */
const returningMs = 4_000
/** It has used too much if that is more than what it can get by more than one part of this many. */
const returningParts = 20
/** Grants that others' reports have made wrong are revised this often, not for each report. */
const reviseEveryMs = 1_000
/**
 * The change of a proxy that is more than one part of this many of a part is heard of at once. Smaller ones, which
 * each report has, wait for the next renewal.
 */
const changedParts = 20
/** Grants are revised if proxies lack more than one part of this many of a part. */
const missingParts = 50
/** A renewal revises the grants for a smaller change of the part. */
const renewedParts = 100
/** A renewal divides again for an even smaller change of demand. */
const driftParts = 500
/** A part is steady if a renewal changes it by at most one part of this many of the limit. */
const steadyParts = 50
/** How often a process looks for members whose grants have expired. */
const expireEveryMs = 500
export const tickMs = 50
/** So that the renewals of a process take a small part of Redis's time at once. */
const renewalsOfTick = 400
/**
 * The members whose grants a process revises in a tick. It answers reports rather than sending what they will be
 * answered anyway.
 */
const revisedOfTick = 2_000
const handedOverAtOnce = 200
/** A process on a host has 3 s to close after its drain. */
const handOverMs = 2_000

/**
 * Returns for how long a member without requests has its bucket. It begins full again after that, so that it must have
 * had the time to fill; an hour is the most.
 */
export function idleAfterMs({
  maxTokens,
  tokens,
  intervalSeconds,
}: Pick<QuotaCapacity, 'maxTokens' | 'tokens' | 'intervalSeconds'>): number {
  const fillMs = (maxTokens / tokens) * intervalSeconds * 1_000
  return Math.min(maxIdleMs, Math.max(minIdleMs, fillMs))
}

/** Names one of several proxies that say to be the same, such as those behind one address. */
export const nthName = (name: string, nth: number) => `${name} (${nth})`
const firstName = (name: string) => name.replace(/ \(\d+\)$/, '')

/** Returns what to report of a demand: what was reported before, if it is the same. */
export function steadyDemand(wanted: number, before: number): number {
  return Math.abs(wanted - before) * unchangedParts < before ? before : wanted
}

/**
 * The parts that this process has of the limits of buckets. It renews each part, and divides it among the proxies
 * that report to this process. A process that stops hands over to others what its proxies still use.
 */
export class PodBuckets {
  readonly #options: PodBucketsOptions
  /** In the order of their last renewal. */
  readonly #buckets = new Map<string, PodBucket>()
  readonly #lacking = new Set<PodBucket>()
  readonly #changed = new Set<PodBucket>()
  readonly renewals = { value: 0 }
  readonly failedRenewals = { value: 0 }
  /** Of all buckets, since one that is opened again must not begin anew. */
  #sequence = 0
  /** The members that this tick can still revise. */
  #revisable = revisedOfTick
  #isStarted = false
  #timer: NodeJS.Timeout | undefined

  constructor(options: PodBucketsOptions) {
    this.#options = options
  }

  /** From the first bucket on, does what is due. */
  start(): void {
    this.#isStarted = true
  }

  /**
   * Returns the bucket of that name.
   * @param limit what the bucket has for all proxies
   */
  open(name: string, limit: number): PodBucket {
    const known = this.#buckets.get(name)
    if (this.#buckets.size === 0) this.#options.onFirst?.()
    const bucket =
      known ??
      new PodBucket(name, {
        ...this.#options,
        onReport: each => this.#onReport(each),
        nextSequence: () => ++this.#sequence,
      })
    bucket.limit = limit
    if (known === undefined) this.#buckets.set(name, bucket)
    if (this.#isStarted) this.#timer ??= setInterval(() => this.tick(), tickMs)
    return bucket
  }

  /** Renews a bucket without waiting for its turn. Resolves when its members have what they can get now. */
  async renewNow(bucket: PodBucket): Promise<void> {
    // A renewal that is under way does not know of the latest reports.
    while (bucket.renewal !== undefined) await bucket.renewal
    await this.#renew(bucket)
  }

  /** Whether a proxy can open the bucket of that name. */
  hasRoomFor(name: string): boolean {
    const { maxBuckets = Number.POSITIVE_INFINITY } = this.#options
    return this.#buckets.size < maxBuckets || this.#buckets.has(name)
  }

  /** Returns the bucket of that name if a proxy has reported it. */
  find(name: string): PodBucket | undefined {
    return this.#buckets.get(name)
  }

  /** Returns what each process has of the bucket, and proxies whose process has stopped. */
  readHolders(name: string): readonly ShareHolder[] | Promise<readonly ShareHolder[]> {
    return this.#options.shares.read(name)
  }

  /** Whether the backend grants nothing new yet, because it does not know what proxies still use. */
  get isLearning(): boolean {
    return this.#options.shares.learningMs() > 0
  }

  /** Names this process among the holders of a bucket. */
  get name(): string {
    return this.#options.pod
  }

  /** Does what is due. */
  tick(): void {
    const nowMs = this.#options.clock.monotonicMs()
    this.#revisable = revisedOfTick
    // Neither starves the other, however many buckets there are.
    const lacking = this.#renewSome(this.#lacking, renewalsOfTick / 2, nowMs)
    const due = this.#renewSome(this.#due(nowMs), renewalsOfTick - lacking, nowMs)
    this.#renewSome(this.#lacking, renewalsOfTick - lacking - due, nowMs)
    for (const bucket of this.#changed) {
      if (this.#revisable <= 0) break
      if (nowMs - bucket.revisedAtMs < reviseEveryMs) continue
      this.#changed.delete(bucket)
      if (bucket.hasNews) this.#revise(bucket)
    }
  }

  /**
   * Hands over what the proxies still use, which must have no stream to this process any more. What is not handed
   * over in time expires by itself.
   */
  async close(withinMs = handOverMs): Promise<void> {
    clearInterval(this.#timer)
    this.#isStarted = false
    const buckets = [...this.#buckets.values()]
    this.#buckets.clear()
    let isLate = false
    const { promise: end, resolve } = Promise.withResolvers<void>()
    const timer = setTimeout(() => {
      isLate = true
      resolve()
    }, withinMs)
    for (let from = 0; from < buckets.length && !isLate; from += handedOverAtOnce) {
      const some = buckets.slice(from, from + handedOverAtOnce)
      await Promise.race([end, Promise.all(some.map(bucket => bucket.handOver()))])
    }
    clearTimeout(timer)
  }

  *#due(nowMs: number): Iterable<PodBucket> {
    for (const bucket of this.#buckets.values()) {
      if (nowMs - bucket.renewedAtMs < renewEveryMs) return
      yield bucket
    }
  }

  /** Returns how many it has renewed. */
  #renewSome(buckets: Iterable<PodBucket>, most: number, nowMs: number): number {
    let renewed = 0
    for (const bucket of buckets) {
      if (renewed === most) break
      if (nowMs - bucket.renewedAtMs < renewSoonMs || bucket.renewal !== undefined) continue
      renewed += 1
      void this.#renew(bucket)
    }
    return renewed
  }

  #onReport(bucket: PodBucket): void {
    if (bucket.isChanged) this.#changed.add(bucket)
    if (bucket.lacks) this.#lacking.add(bucket)
  }

  async #renew(bucket: PodBucket): Promise<void> {
    this.#lacking.delete(bucket)
    this.#buckets.delete(bucket.name)
    const isUsed = bucket.isUsed
    if (isUsed) this.#buckets.set(bucket.name, bucket)
    else {
      this.#changed.delete(bucket)
      bucket.isForgotten = true
    }
    this.renewals.value += 1
    const isRenewed = await bucket.renew()
    if (isUsed && !isRenewed) this.failedRenewals.value += 1
    if (!isRenewed || !isUsed || !bucket.hasNews) return
    if (this.#revisable > 0) this.#revise(bucket)
    else this.#changed.add(bucket)
  }

  #revise(bucket: PodBucket): void {
    this.#revisable -= bucket.size
    bucket.beginRevision()
    this.#options.onChange(bucket)
    bucket.endRevision()
  }
}

interface PodBucketOptions extends Pick<PodBucketsOptions, 'shares' | 'pod' | 'clock'> {
  readonly onReport: (bucket: PodBucket) => void
  readonly nextSequence: () => number
}

/** A proxy that may have an assignment of another process. */
interface Returning {
  /** How much of it the proxy has used; 0 as soon as that process has handed it over. */
  used: number
  readonly sinceMs: number
  /** Whether this process has got what another one has handed over. */
  isAdopted: boolean
}

/** The part that this process has of the limit of one bucket. */
export class PodBucket {
  readonly name: string
  limit = 0
  /** Whether the process has no part any more. The next member opens the bucket again. */
  isForgotten = false
  renewedAtMs = Number.NEGATIVE_INFINITY
  revisedAtMs = Number.NEGATIVE_INFINITY
  readonly #options: PodBucketOptions
  readonly #part = new Part(0)
  /** 0 if the process has no part. */
  #partEndsMs = 0
  #reported = { wanted: 0, members: 0 }
  readonly #returning = new Map<string, Returning>()
  /** Those whose grants have moved, and which are not told yet what they may use. */
  readonly #returned = new Set<string>()
  /** What returning proxies have brought since the last renewal. */
  readonly #adopted = new Map<string, number>()
  #renewal: Promise<boolean> | undefined
  #isClosed = false
  /** Whether the last renewal knew what all processes have. */
  #isKnown = false
  /** Whether the last renewal has brought what is wanted, or as much as the one before. */
  #isSteady = false

  constructor(name: string, options: PodBucketOptions) {
    this.name = name
    this.#options = options
  }

  /** The call to the other processes that is under way. */
  get renewal(): Promise<boolean> | undefined {
    return this.#renewal
  }

  /** Whether a proxy has reported that may still use something. */
  get isUsed(): boolean {
    return this.membersAt(this.#options.clock.monotonicMs()).size > 0
  }

  /** The number of members. */
  get size(): number {
    return this.#part.size
  }

  /** Whether the part should be renewed soon, because more is wanted than the last renewal said. */
  get lacks(): boolean {
    const { wanted, members } = this.#reported
    if (this.#isAdopting) return true
    return this.#part.wanted > wanted * 1.1 + 1 || this.#part.size > members
  }

  /** Whether what a proxy reports has changed enough to revise the grants of those that do not report now. */
  get isChanged(): boolean {
    return this.#part.isChanged && this.#part.isUneven
  }

  /** Whether the renewal lets proxies have something else than before. */
  get hasNews(): boolean {
    return this.#part.isMoved || this.#part.isUneven || this.#returned.size > 0
  }

  /** Whether the part is steady, and each proxy has its share of it. */
  get isSettled(): boolean {
    return this.#isSteady && !this.#part.isUneven
  }

  /** Returns what the proxies may use in total. */
  assignedAt(nowMs: number): number {
    return this.#part.outstandingAt(nowMs)
  }

  holdersAt(nowMs: number): readonly ShareHolder[] {
    return this.#part.holdersAt(nowMs)
  }

  beginRevision(): void {
    this.revisedAtMs = this.#options.clock.monotonicMs()
    this.#part.isChanged = false
    this.#part.isMoved = false
  }

  endRevision(): void {
    this.#returned.clear()
  }

  membersAt(nowMs: number): ReadonlyMap<string, Readonly<Member>> {
    return this.#part.membersAt(nowMs)
  }

  /**
   * Takes the report of a proxy, and returns what it may use. Undefined if there is nothing for it now: it goes
   * on with its last assignment until that expires.
   * @param used how much the proxy has used of an assignment that it may have of another process; else undefined
   */
  report(proxy: string, report: ShareReport, nowMs: number, used?: number): PodGrant | undefined {
    if (this.#isClosed) return undefined
    const ttlSeconds = this.#endPart(nowMs)
    const amount = this.#part.report(proxy, report, nowMs, proxyTtlMs + transportMs)
    if (used !== undefined) this.#returning.set(proxy, { used, sinceMs: nowMs, isAdopted: false })
    else if (this.#returning.get(proxy)?.isAdopted) this.#returning.delete(proxy)
    this.#options.onReport(this)
    // A returning proxy would take what happens to be free in place of the assignment that it has.
    const isMissing = this.#returning.has(proxy) || (amount === 0 && report.wanted > 0 && this.limit > 0)
    return ttlSeconds === 0 || isMissing ? undefined : { amount, ttlSeconds }
  }

  /** Yields the proxies for which `revise` may have something. */
  *misfits(nowMs: number): Generator<string> {
    yield* this.#part.misfits(nowMs)
    yield* this.#returned
  }

  /** Returns what the proxy may use from now on, if that should not wait for its next report. */
  revise(proxy: string, nowMs: number): PodGrant | undefined {
    const ttlSeconds = this.#endPart(nowMs)
    const returning = this.#returning.get(proxy)
    if (this.#isClosed || ttlSeconds === 0 || returning?.isAdopted === false) return undefined
    const ttlMs = proxyTtlMs + transportMs
    const revised = this.#part.revise(proxy, nowMs, ttlMs)
    // What has returned is not told yet. Nothing is not told: see `report`.
    const told = revised ?? (this.#returned.has(proxy) && this.#part.prolong(proxy, nowMs, ttlMs))
    if (revised === undefined && !told) return undefined
    const amount = Number(told)
    const { used = 0 } = returning ?? {}
    // A process that was killed has handed over nothing, and its part counts until it expires. The little that is free
    // now would replace what the proxy has.
    if ((used - amount) * returningParts > used) return undefined
    this.#returning.delete(proxy)
    return { amount, ttlSeconds }
  }

  /**
   * Returns the grant of a member for which nothing is left. Undefined if that is not known, because the process has no
   * part now or the backend still learned at its last renewal.
   */
  nothingAt(nowMs: number): PodGrant | undefined {
    const ttlSeconds = this.#endPart(nowMs)
    return this.#isKnown && !this.#isClosed && ttlSeconds > 0 ? { amount: 0, ttlSeconds } : undefined
  }

  leave(proxy: string): void {
    this.#part.leave(proxy)
  }

  /** Renews the part, or gives it back if no proxy uses it. Resolves with whether the process has one then. */
  async renew(): Promise<boolean> {
    this.#renewal = this.#renewOnce()
    const isRenewed = await this.#renewal
    this.#renewal = undefined
    return isRenewed
  }

  async #renewOnce(): Promise<boolean> {
    const { shares, pod, clock, nextSequence } = this.#options
    const nowMs = clock.monotonicMs()
    this.renewedAtMs = nowMs
    // Other processes may get what this one does not report to hold, so that it must not rise any more.
    this.#part.isFrozen = true
    this.#endPart(nowMs)
    try {
      if (!this.isUsed) {
        await shares.leave(this.name, pod)
        return false
      }
      await this.#adopt()
      if (this.#isClosed) return false
      const members = this.#part.size
      const report = { ...this.#part.claimAt(nowMs), granted: this.#part.capacity, sequence: nextSequence() }
      const granted = await shares.renew({ bucket: this.name, member: pod, capacity: this.limit, report })
      if (this.#isClosed) return false
      const moved = Math.abs(granted - this.#part.capacity)
      this.#part.isMoved ||= moved * renewedParts > this.#part.capacity
      this.#isKnown = shares.learningMs() === 0
      this.#isSteady = this.#isKnown && (granted >= report.wanted || moved * steadyParts <= this.limit)
      this.#part.capacity = granted
      this.#part.isFrozen = false
      this.#adopted.clear()
      this.#reported = { wanted: report.wanted, members }
      this.#partEndsMs = nowMs + bucketGrantMs
      return true
    } catch (error) {
      if (!(error instanceof CountersError)) throw error
      this.#isSteady = false
      return false
    }
  }

  async handOver(): Promise<void> {
    const { shares, pod, clock } = this.#options
    this.#isClosed = true
    await this.#renewal
    this.#endPart(clock.monotonicMs())
    try {
      const members = this.membersAt(clock.monotonicMs())
      const moves = Array.from(members, ([proxy, { held, granted }]) => {
        // A proxy that came back before the end of its earlier stream was known has the name of a second one here only.
        const first = firstName(proxy)
        return shares.move(this.name, pod, members.has(first) ? proxy : first, Math.max(held, granted))
      })
      await Promise.all(moves)
      // What a returning proxy uses may be in the part already, if the answer of its move was lost.
      if (!this.#isAdopting) await shares.leave(this.name, pod)
    } catch (error) {
      // The part expires by itself.
      if (!(error instanceof CountersError)) throw error
    }
  }

  /** Goes on with what proxies have from processes that have stopped. */
  async #adopt(): Promise<void> {
    const { shares, pod, clock } = this.#options
    // The proxy may have got an assignment of another process just now.
    const prolong = (proxy: string) =>
      this.#part.prolong(proxy, clock.monotonicMs(), proxyTtlMs + transportMs)
    for (const [proxy, returning] of this.#returning) {
      if (prolong(proxy) === undefined) {
        this.#returning.delete(proxy)
        continue
      }
      if (!returning.isAdopted) {
        // It is repeated if its answer is lost, before this process says again what it holds.
        const moved = await shares.move(this.name, proxy, pod, Number.MAX_SAFE_INTEGER)
        const before = this.#adopted.get(proxy) ?? 0
        prolong(proxy)
        this.#part.adopt(proxy, Math.max(0, moved - before))
        this.#adopted.set(proxy, Math.max(moved, before))
        returning.isAdopted = true
        if (moved > 0) returning.used = 0
      }
      if (clock.monotonicMs() - returning.sinceMs >= returningMs) this.#returning.delete(proxy)
      this.#returned.add(proxy)
    }
  }

  get #isAdopting(): boolean {
    return this.#returning.values().some(({ isAdopted }) => !isAdopted)
  }

  /**
   * Returns for how long the part can be granted. It has an end if it cannot be renewed, and all that was granted of it
   * has ended then. What returning proxies have brought since the last renewal lasts longer.
   */
  #endPart(nowMs: number): number {
    const leftMs = Math.min(proxyTtlMs, this.#partEndsMs - nowMs - transportMs)
    const ttlSeconds = Math.max(0, Math.floor(leftMs / 1_000))
    if (ttlSeconds === 0) this.#part.capacity = 0
    if (this.#partEndsMs > 0 && nowMs >= this.#partEndsMs) {
      this.#part.resetGrants(this.#adopted)
      this.#partEndsMs = 0
    }
    return ttlSeconds
  }
}

/** Divides the part of a process. */
class Part extends Shares {
  /** Whether a member has wanted something else, or has returned something, since the last revision. */
  isChanged = false
  /** While true, no grant rises. */
  isFrozen = true
  /** Whether the capacity has become another one since the last revision. */
  isMoved = false
  /** What all members want. */
  wanted = 0
  #expireAtMs = Number.NEGATIVE_INFINITY
  /** How much of `wanted` has changed since the last division. */
  #drift = 0
  /** What members want and are to have, but do not have yet. */
  #missing = 0

  protected override grant(
    member: Member,
    held: number,
    confirmed: number,
    expiresAtMs: number,
    nowMs: number,
  ): number {
    this.updateTargets()
    const before = this.outstanding
    const missing = missingOf(member)
    const granted = super.grant(member, held, confirmed, expiresAtMs, nowMs)
    this.#noteChange(before - this.outstanding)
    this.#missing += missingOf(member) - missing
    return granted
  }

  /** Whether a revision would give members what they want. */
  get isUneven(): boolean {
    return this.#missing * missingParts > this.capacity
  }

  get size(): number {
    return this.members.size
  }

  /**
   * Returns what to report of all members together. Those that have what they want are the floor, and each of the
   * others has the weight of one, so that a proxy gets the same through whichever process it reports to.
   */
  claimAt(nowMs: number): Omit<Required<ShareReport>, 'sequence' | 'granted'> {
    let floor = 0
    let weight = 0
    if (this.#drift * driftParts > this.capacity) this.areTargetsCurrent = false
    for (const { wanted, target } of this.membersAt(nowMs).values()) {
      if (wanted <= target) floor += wanted
      else weight += 1
    }
    const { wanted, size } = this
    return {
      wanted,
      floor,
      weight: weight === 0 ? Math.max(1, size) : weight,
      held: this.outstandingAt(nowMs),
    }
  }

  /** Lets the grant of a member last for the time to live from now on, and returns it; undefined if it has expired. */
  prolong(id: string, nowMs: number, ttlMs: number): number | undefined {
    this.expire(nowMs)
    const member = this.members.get(id)
    if (member === undefined) return undefined
    member.expiresAtMs = Math.max(member.expiresAtMs, nowMs + ttlMs)
    return member.granted
  }

  /** Leaves each member only with an amount that it has from elsewhere. */
  resetGrants(amounts: ReadonlyMap<string, number>): void {
    this.outstanding = 0
    for (const [id, member] of this.members) {
      const amount = amounts.get(id) ?? 0
      Object.assign(member, { held: amount, confirmed: amount, granted: 0 })
      this.outstanding += amount
    }
    this.areTargetsCurrent = false
  }

  adopt(id: string, amount: number): void {
    const member = this.members.get(id)
    if (member === undefined) return
    member.confirmed = this.proven(member) + amount
    member.held = this.counted(member) + amount
    this.outstanding += amount
    this.capacity += amount
  }

  protected override allowed(member: Member, others: number, confirmed: number, nowMs: number): number {
    if (this.isFrozen) return Math.min(member.target, confirmed)
    return super.allowed(member, others, confirmed, nowMs)
  }

  /**
   * Divides again at once only for a large change, since each report says something a little different. Smaller ones
   * wait for the next renewal: a division takes a time for each member.
   */
  protected override claim(member: Member, report: ShareReport): void {
    const wereCurrent = this.areTargetsCurrent
    const missing = missingOf(member)
    this.#drift += Math.abs(report.wanted - member.wanted)
    this.wanted += report.wanted - member.wanted
    const isChanged = this.#noteChange(Math.abs(report.wanted - member.wanted))
    super.claim(member, report)
    this.#missing += missingOf(member) - missing
    this.areTargetsCurrent ||= wereCurrent && !isChanged
  }

  #noteChange(amount: number): boolean {
    const isChange = this.capacity > 0 && this.#isChange(amount)
    this.isChanged ||= isChange
    return isChange
  }

  #isChange(amount: number): boolean {
    return amount * changedParts > this.capacity
  }

  /** One more among many members has an equal part until the next division. */
  protected override join(id: string, nowMs: number): Member {
    const wereCurrent = this.areTargetsCurrent
    const member = super.join(id, nowMs)
    member.target = Math.floor(this.capacity / this.size)
    this.#drift += member.target
    this.areTargetsCurrent = wereCurrent && !this.#isChange(member.target)
    return member
  }

  protected override updateTargets(): void {
    if (this.areTargetsCurrent) return
    super.updateTargets()
    this.#drift = 0
    this.#missing = 0
    for (const member of this.members.values()) this.#missing += missingOf(member)
  }

  override leave(id: string): void {
    const wereCurrent = this.areTargetsCurrent
    const member = this.members.get(id)
    if (member === undefined) return
    this.wanted -= member.wanted
    this.#missing -= missingOf(member)
    super.leave(id)
    this.#drift += member.target
    this.areTargetsCurrent = wereCurrent && !this.#isChange(member.target)
  }

  /** Looks at all members from time to time only. An expired one counts until then. */
  protected override expire(nowMs: number): void {
    if (nowMs < this.#expireAtMs) return
    this.#expireAtMs = nowMs + expireEveryMs
    super.expire(nowMs)
  }
}

const missingOf = ({ target, wanted, granted }: Member) => Math.max(0, Math.min(target, wanted) - granted)
