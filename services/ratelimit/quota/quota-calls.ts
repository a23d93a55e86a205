import type { Clock } from '@tollway/chassis/clock.ts'
import {
  admitAll,
  type LimitCheck,
  type LimitOutcome,
  type LimitState,
} from '../counters/admission/limit-check.ts'
import { toBucketSize } from '../rules/bucket.ts'
import {
  idleAfterMs,
  type PodBucket,
  type PodBuckets,
  type PodGrant,
  steadyDemand,
  tickMs,
} from './pod-buckets.ts'

type Outcomes = readonly LimitOutcome[] | Promise<readonly LimitOutcome[]>
type Ask = (checks: readonly LimitCheck[], nowMs: number) => Outcomes

interface QuotaCallsOptions {
  readonly pods: Pick<PodBuckets, 'open' | 'find' | 'renewNow'>
  readonly clock: Clock
}

/** The member of each bucket that is the calls of this process. No proxy has this name. */
export const callsMember = 'calls'

/** At most this many buckets are kept. Calls of others ask the counters. */
const maxBuckets = 10_000
const maxNameLength = 4096
/** Demand is known at once, so it is reported more often than proxies do. */
const reportEveryMs = 1_000

/**
 * Decides the calls of limits with `delivery: Quota` by a token bucket with the share that they have together as one
 * more member of the limit, beside the proxies that report to this process. The first call of a bucket waits for its
 * share. Calls without a share, such as those while the shares are being learned, ask the counters.
 */
export class QuotaCalls {
  readonly #options: QuotaCallsOptions
  /** By the name of the bucket, in the order of their last report. */
  readonly #buckets = new Map<string, CallBucket>()
  #timer: NodeJS.Timeout | undefined
  #isClosed = false

  constructor(options: QuotaCallsOptions) {
    this.#options = options
  }

  /** Has the contract of `Counters.admit`. `ask` asks the counters. */
  admit(checks: readonly LimitCheck[], nowMs: number, ask: Ask): Outcomes {
    let opening: Promise<unknown> | undefined
    let isShared = false
    for (const check of checks) {
      if (check.quota === undefined) continue
      isShared = true
      const own = this.#call(check, check.quota)?.opening
      if (own !== undefined) opening = Promise.all([opening, own])
    }
    if (!isShared) return ask(checks, nowMs)
    return opening === undefined
      ? this.#decide(checks, nowMs, ask)
      : opening.then(() => this.#decide(checks, nowMs, ask))
  }

  /** Takes what the calls of a bucket have now. */
  revise(pod: PodBucket): void {
    const nowMs = this.#options.clock.monotonicMs()
    this.#buckets.get(pod.name)?.take(pod.revise(callsMember, nowMs), nowMs)
  }

  /** Reports what is due, and leaves buckets without calls. */
  tick(): void {
    const nowMs = this.#options.clock.monotonicMs()
    for (const [name, bucket] of this.#buckets) {
      if (nowMs - bucket.reportedAtMs < reportEveryMs) return
      this.#buckets.delete(name)
      if (nowMs - bucket.calledAtMs >= idleAfterMs(bucket.quota)) this.#pod(bucket).leave(callsMember)
      else {
        this.#buckets.set(name, bucket)
        this.#report(bucket, nowMs)
      }
    }
  }

  /** Leaves all buckets. From then on, calls ask the counters. */
  close(): void {
    this.#isClosed = true
    clearInterval(this.#timer)
    for (const bucket of this.#buckets.values()) this.#pod(bucket).leave(callsMember)
    this.#buckets.clear()
  }

  /** Counts the demand of a call. Returns undefined if its limit gets no share. */
  #call(check: LimitCheck, quota: Quota): CallBucket | undefined {
    const nowMs = this.#options.clock.monotonicMs()
    const known = this.#buckets.get(quota.name)
    if (known !== undefined) {
      known.call(check, quota, nowMs)
      return known
    }
    const isFull = this.#buckets.size >= maxBuckets || quota.name.length > maxNameLength
    if (check.hits <= 0 || isFull || this.#isClosed) return undefined
    this.#timer ??= setInterval(() => this.tick(), tickMs).unref()
    const bucket = new CallBucket(check, quota, nowMs)
    this.#buckets.set(quota.name, bucket)
    const pod = this.#report(bucket, nowMs)
    if (!bucket.isUsable(nowMs)) {
      bucket.opening = this.#options.pods.renewNow(pod).finally(() => {
        bucket.opening = undefined
        this.#takeNothing(bucket, pod)
      })
    }
    return bucket
  }

  #report(bucket: CallBucket, nowMs: number): PodBucket {
    const pod = this.#pod(bucket)
    bucket.take(pod.report(callsMember, bucket.claim(nowMs), nowMs), nowMs)
    this.#takeNothing(bucket, pod)
    return pod
  }

  /** Rejects calls while others have the whole limit, which the counters would admit a second time. */
  #takeNothing(bucket: CallBucket, pod: PodBucket): void {
    const nowMs = this.#options.clock.monotonicMs()
    if (!bucket.isUsable(nowMs)) bucket.take(pod.nothingAt(nowMs), nowMs)
  }

  /**
   * Asked for each time, because a process forgets its part of a limit that no member uses. The limit may have changed
   * since the last call.
   */
  #pod({ quota: { name, tokens }, hasCalls }: CallBucket): PodBucket {
    const { pods } = this.#options
    return (hasCalls ? undefined : pods.find(name)) ?? pods.open(name, tokens)
  }

  #decide(checks: readonly LimitCheck[], nowMs: number, ask: Ask): Outcomes {
    const monotonicMs = this.#options.clock.monotonicMs()
    const shared: LimitCheck[] = []
    const buckets: CallBucket[] = []
    for (const check of checks) {
      if (check.quota === undefined) continue
      const bucket = this.#buckets.get(check.quota.name)
      if (!bucket?.isUsable(monotonicMs)) return ask(checks, nowMs)
      bucket.fill(monotonicMs)
      shared.push(check)
      buckets.push(bucket)
    }
    const outcomes = admitAll(shared, buckets).map((outcome, index) => {
      return { ...outcome, shareSize: (buckets[index] as CallBucket).size }
    })
    if (shared.length === checks.length) return outcomes
    const takeBack = () => {
      for (const [index, { hits, countRejected }] of shared.entries()) {
        if (outcomes[index]?.admitted && hits > 0 && !countRejected) buckets[index]?.undo(hits)
      }
    }
    return askForOthers(checks, outcomes, rest => ask(rest, nowMs), takeBack)
  }
}

/** Asks the counters for the limits without shares, which admit the call together with those that have decided. */
async function askForOthers(
  checks: readonly LimitCheck[],
  decided: readonly LimitOutcome[],
  ask: (checks: readonly LimitCheck[]) => Outcomes,
  takeBack: () => void,
): Promise<readonly LimitOutcome[]> {
  const shared = checks.filter(({ quota }) => quota !== undefined)
  const others = checks.filter(({ quota }) => quota === undefined)
  const rejects = (those: readonly LimitCheck[], outcomes: readonly LimitOutcome[]) =>
    those.some(({ shadow }, index) => !(shadow || outcomes[index]?.admitted))
  const isRejected = rejects(shared, decided)
  const isCounted = ({ hits, countRejected }: LimitCheck) => !isRejected || hits < 0 || countRejected
  try {
    const asked = await ask(others.map(check => (isCounted(check) ? check : { ...check, hits: 0 })))
    if (!isRejected && rejects(others, asked)) takeBack()
    const [own, rest] = [decided.values(), asked.values()]
    return checks.map(({ quota }) => (quota === undefined ? rest : own).next().value as LimitOutcome)
  } catch (error) {
    if (!isRejected) takeBack()
    throw error
  }
}

type Quota = NonNullable<LimitCheck['quota']>

/** What calls have of one limit: a token bucket with the rate of their share. All times are monotonic. */
class CallBucket implements LimitState {
  /** Of the last call. */
  check: LimitCheck
  quota: Quota
  calledAtMs: number
  reportedAtMs: number
  /** Resolves when the first share may have arrived. */
  opening: Promise<void> | undefined
  /** The tokens of the full bucket, with which it begins. */
  size = Number.POSITIVE_INFINITY
  #tokens = Number.POSITIVE_INFINITY
  #filledAtMs: number
  /** The tokens of an interval. */
  #share = 0
  #shareEndsMs = Number.NEGATIVE_INFINITY
  /** The hits of calls since the last report. */
  #demand: number
  #hitsPerSecond = 0
  #wanted = 0
  #sequence = 0

  constructor(check: LimitCheck, quota: Quota, nowMs: number) {
    this.check = check
    this.quota = quota
    this.calledAtMs = nowMs
    this.reportedAtMs = nowMs
    this.#filledAtMs = nowMs
    this.#demand = check.hits
  }

  isUsable(nowMs: number): boolean {
    return nowMs < this.#shareEndsMs
  }

  /** Whether there were calls since the last report. */
  get hasCalls(): boolean {
    return this.#demand !== 0
  }

  call(check: LimitCheck, quota: Quota, nowMs: number): void {
    this.check = check
    this.quota = quota
    if (check.hits === 0) return
    this.#demand += check.hits
    this.calledAtMs = nowMs
  }

  /** Returns what to report. */
  claim(nowMs: number) {
    const { tokens, intervalSeconds } = this.quota
    const seconds = (nowMs - this.reportedAtMs) / 1_000
    const isFirst = seconds === 0
    const measured = Math.max(0, this.#demand / (isFirst ? 1 : seconds))
    // Whatever is beyond the limit would be remembered for long.
    const most = Math.min(measured, tokens / intervalSeconds)
    this.#hitsPerSecond = this.#sequence < 2 ? most : (this.#hitsPerSecond + most) / 2
    if (!isFirst) this.#demand = 0
    this.reportedAtMs = nowMs
    this.#sequence += 1
    const wanted = Math.min(tokens, Math.ceil(this.#hitsPerSecond * intervalSeconds))
    this.#wanted = steadyDemand(wanted, this.#wanted)
    const held = this.isUsable(nowMs) ? this.#share : 0
    return { wanted: this.#wanted, held, sequence: this.#sequence }
  }

  /** Uses another share. If there is none now, the last one is used until it ends. */
  take(grant: PodGrant | undefined, nowMs: number): void {
    if (grant === undefined) return
    this.fill(nowMs)
    this.#share = grant.amount
    this.#shareEndsMs = nowMs + grant.ttlSeconds * 1_000
    this.size = toBucketSize(this.quota, grant.amount)
    this.#tokens = Math.min(this.#tokens, this.size)
  }

  fill(nowMs: number): void {
    const seconds = Math.max(0, Math.min(nowMs, this.#shareEndsMs) - this.#filledAtMs) / 1_000
    this.#tokens = Math.min(this.size, this.#tokens + (seconds * this.#share) / this.quota.intervalSeconds)
    this.#filledAtMs = nowMs
  }

  /**
   * A call of more hits than a full bucket has is admitted when the bucket is full, and is owed then: the share may be
   * a small part of the limit, and would never admit the call.
   */
  admits(hits: number): boolean {
    return hits <= this.check.burst && this.#tokens >= Math.min(hits, this.size)
  }

  add(hits: number): void {
    this.#tokens = Math.min(this.size, this.#tokens - hits)
  }

  undo(hits: number): void {
    this.add(-hits)
  }

  giveBack(hits: number): void {
    this.add(-hits)
  }

  empty(): void {
    this.#tokens = this.size
  }

  /** Rejected hits are owed up to what the limit admits at once. */
  room(): number {
    return Math.max(0, Math.floor(this.#tokens + this.check.burst))
  }

  remaining(): number {
    return Math.floor(this.#tokens)
  }

  wait(hits: number): number | undefined {
    const { burst, ticksPerSecond } = this.check
    if (hits > burst) return undefined
    const lacking = Math.max(0, Math.min(hits, this.size) - this.#tokens)
    if (lacking > 0 && this.#share === 0) return (reportEveryMs / 1_000) * ticksPerSecond
    return lacking === 0 ? 0 : ((lacking * this.quota.intervalSeconds) / this.#share) * ticksPerSecond
  }
}
