import type { Clock } from '@tollway/chassis/clock.ts'
import { CountersError } from '../counters/counters.ts'
import { matchBucket, nameCapacity, type QuotaCapacity, toBucketSize } from '../rules/bucket.ts'
import type { RuleSet } from '../rules/compile.ts'
import type { Limit } from '../rules/limit.ts'
import type { DescriptorEntry } from '../rules/match.ts'
import { reservedParts, type ShareHolder } from '../shares/shares.ts'
import {
  idleAfterMs,
  nthName,
  type PodBucket,
  type PodBuckets,
  type PodGrant,
  proxyTtlMs,
  steadyDemand,
  transportMs,
} from './pod-buckets.ts'
import { callsMember } from './quota-calls.ts'

/** A bucket of one member. All usages and assignments of the bucket have the same object. */
export interface QuotaBucket {
  readonly domain: string
  /** In any order. */
  readonly entries: readonly DescriptorEntry[]
  /** What `QuotaBuckets` keeps of it: a report of a million buckets has no time to look each up. */
  holding?: Holding | undefined
}

export interface QuotaUsage {
  readonly bucket: QuotaBucket
  /** The requests since the last report of the bucket. */
  readonly allowed: number
  readonly denied: number
  /** The time since the last report of the bucket; 0 for its first. */
  readonly elapsedMs: number
}

/** What a member may do with a bucket until it is told something else, or the time to live is over. */
export type QuotaAssignment = { readonly bucket: QuotaBucket } & (
  | { readonly action: 'abandon' }
  | { readonly action: 'allow'; readonly ttlSeconds: number }
  | {
      readonly action: 'limit'
      readonly tokensPerFill: number
      readonly maxTokens: number
      /** Always the same for a bucket, because Envoy ignores a change of it. */
      readonly fillIntervalSeconds: number
      readonly ttlSeconds: number
    }
)

/** A proxy with an open stream. */
interface QuotaMember {
  /**
   * Resolves with the assignments to send: not every bucket needs one.
   *
   * @param isSuperseded whether the next report has arrived, and has the same buckets: only new buckets are assigned
   */
  report(usages: readonly QuotaUsage[], isSuperseded?: boolean): Promise<readonly QuotaAssignment[]>
  /** The stream has ended. What was assigned may still be used until its time to live is over. */
  close(): void
}

interface QuotaBucketsOptions {
  readonly rules: () => RuleSet<unknown> | undefined
  readonly pods: Pick<PodBuckets, 'open' | 'find' | 'hasRoomFor' | 'readHolders' | 'name'>
  readonly clock: Clock
  /** Whether no limit rejects. */
  readonly shadowMode: boolean
}

/** The time between two reports of an Envoy can be less only because it is rounded down. */
const reportedEveryMs = 5_000

/** Who has what of one bucket, in tokens. */
export interface BucketReading {
  readonly rule: string
  readonly capacity: QuotaCapacity
  /** Names this process among `holders`. */
  readonly process: string
  /** The proxies that report to this process, also those whose stream has ended and whose share has not. */
  readonly members: readonly ShareHolder[]
  /** The processes that have a part of the bucket, and proxies whose process has stopped. */
  readonly holders: readonly ShareHolder[]
  /** Why the holders could not be read; empty if they could. */
  readonly problem: string
}

/** The limit of one bucket, which proxies with an open stream share. */
export interface SharedBucket {
  /** The same in every process. */
  readonly name: string
  readonly domain: string
  readonly rule: string
  readonly capacity: QuotaCapacity
  readonly members: number
  /** The tokens that proxies, also those whose stream has ended, and calls may use. */
  readonly assigned: number
  /** Whether each proxy has its share. */
  readonly isSettled: boolean
}

type Push = (assignments: readonly QuotaAssignment[]) => void

/** An open stream. */
interface Stream {
  readonly name: string
  readonly push: Push
  readonly holdings: Set<Holding>
}

/** What one member has of one bucket. */
interface Holding {
  readonly bucket: QuotaBucket
  readonly stream: Stream
  readonly rules: RuleSet<unknown> | undefined
  /** Undefined if the bucket has no limit that is shared. */
  readonly share: SharedLimit | undefined
  readonly id: string
  sequence: number
  wanted: number
  granted: number
  /** The most that the proxy could still use when it was sent `granted`. */
  held: number
  assignedAtMs: number
  /** When the proxy can use nothing any more. */
  endsAtMs: number
  usedAtMs: number
  /** Whether this process has told the proxy its share. */
  isTold: boolean
}

interface SharedLimit {
  readonly domain: string
  readonly name: string
  limit: Limit<unknown>
  capacity: QuotaCapacity
  pod: PodBucket
  /** Of members with an open stream, by their ids. */
  readonly holdings: Map<string, Holding>
}

/**
 * Divides the limits of `delivery: Quota` among the proxies that report to this process, by its parts of them. A proxy
 * that comes back while its assignments last continues with them.
 */
export class QuotaBuckets {
  readonly #options: QuotaBucketsOptions
  readonly #shared = new Map<string, SharedLimit>()
  readonly #open = new Map<string, Stream>()

  constructor(options: QuotaBucketsOptions) {
    this.#options = options
  }

  /** The identity names the proxy across its streams. A second stream of it at the same time is another proxy. */
  open(identity: string, push: Push): QuotaMember {
    const first = identity === callsMember ? `${identity} (proxy)` : identity
    let name = first
    for (let nth = 2; this.#open.has(name); nth++) name = nthName(first, nth)
    const stream: Stream = { name, push, holdings: new Set() }
    this.#open.set(name, stream)
    return {
      report: async (usages, isSuperseded = false) => {
        const nowMs = this.#options.clock.monotonicMs()
        const assignments: QuotaAssignment[] = []
        for (const usage of usages) {
          const { holding: known } = usage.bucket
          const isFirst = known === undefined
          if (isSuperseded && !(isFirst && hasRequests(usage))) {
            if (known !== undefined && hasRequests(usage)) known.usedAtMs = nowMs
            continue
          }
          const holding = this.#find(stream, usage.bucket, nowMs)
          const assignment = this.#assign(holding, usage, isFirst, nowMs)
          if (assignment?.action === 'abandon') this.#leave(holding)
          if (assignment !== undefined) assignments.push(assignment)
        }
        return assignments
      },
      close: () => {
        for (const holding of stream.holdings) this.#drop(holding)
        this.#open.delete(name)
      },
    }
  }

  /** Tells the proxies what they have now, because the part of this process has changed, or what others want. */
  revise(bucket: PodBucket): void {
    const share = this.#shared.get(bucket.name)
    if (share === undefined) return
    const nowMs = this.#options.clock.monotonicMs()
    for (const id of bucket.misfits(nowMs)) {
      // What a proxy without a stream could get cannot be told to it.
      const holding = share.holdings.get(id)
      if (holding === undefined) continue
      const grant = bucket.revise(id, nowMs)
      if (grant === undefined) continue
      holding.stream.push([setGrant(holding, grant, share.capacity, nowMs)])
    }
  }

  /** Returns the number of open streams, of the limits that they share, and of the shares. */
  count(): { readonly streams: number; readonly buckets: number; readonly shares: number } {
    let shares = 0
    for (const { holdings } of this.#shared.values()) shares += holdings.size
    return { streams: this.#open.size, buckets: this.#shared.size, shares }
  }

  /** Lists what the proxies of this process share. */
  *list(): Generator<SharedBucket> {
    const nowMs = this.#options.clock.monotonicMs()
    for (const { name, domain, limit, capacity, holdings } of this.#shared.values()) {
      const bucket = this.#options.pods.find(name)
      yield {
        name,
        domain,
        rule: limit.configuredKey,
        capacity,
        members: holdings.size,
        assigned: bucket?.assignedAt(nowMs) ?? 0,
        isSettled: bucket?.isSettled ?? false,
      }
    }
  }

  /** Returns the number of proxies that share limits, by the domain of their stream. */
  countMembers(): ReadonlyMap<string, number> {
    const members = new Map<string, number>()
    for (const { holdings } of this.#open.values()) {
      const used = holdings.values().find(({ share }) => share !== undefined)
      if (used !== undefined) members.set(used.bucket.domain, (members.get(used.bucket.domain) ?? 0) + 1)
    }
    return members
  }

  /**
   * Returns what proxies, and processes, have of one bucket; undefined if no rule shares it.
   *
   * @param entries in any order
   */
  async read(domain: string, entries: readonly DescriptorEntry[]): Promise<BucketReading | undefined> {
    const { rules, pods, clock } = this.#options
    const active = rules()
    const found = active && matchBucket(active, domain, entries)
    if (found === undefined) return undefined
    const { name, ...capacity } = nameCapacity(found.baseKey, found.limit)
    const members = pods.find(name)?.holdersAt(clock.monotonicMs()) ?? []
    const reading = { rule: found.limit.configuredKey, capacity, process: pods.name, members }
    try {
      return { ...reading, holders: await pods.readHolders(name), problem: '' }
    } catch (error) {
      if (!(error instanceof CountersError)) throw error
      return { ...reading, holders: [], problem: error.message }
    }
  }

  #find(stream: Stream, bucket: QuotaBucket, nowMs: number): Holding {
    const rules = this.#options.rules()
    const known = bucket.holding
    if (known !== undefined && known.rules === rules) return known
    const found = rules && matchBucket(rules, bucket.domain, bucket.entries)
    const share = found && this.#share(bucket.domain, found.baseKey, found.limit)
    const id = share === undefined ? stream.name : findId(share, stream.name, bucket)
    const earlier = share === undefined ? known : this.#bucketOf(share).membersAt(nowMs).get(id)
    const { granted = 0, held = 0, sequence = 0, wanted = 0 } = earlier ?? {}
    const times = {
      assignedAtMs: nowMs,
      endsAtMs: nowMs + proxyTtlMs + transportMs,
      usedAtMs: nowMs,
      isTold: false,
    }
    const holding = { bucket, stream, rules, share, id, granted, held, sequence, wanted, ...times }
    if (known !== undefined) {
      if (known.share !== share) this.#leave(known)
      stream.holdings.delete(known)
    }
    bucket.holding = holding
    stream.holdings.add(holding)
    share?.holdings.set(id, holding)
    return holding
  }

  /** Forgets a bucket that its proxy does not use any more. */
  #leave(holding: Holding): void {
    holding.bucket.holding = undefined
    holding.stream.holdings.delete(holding)
    if (holding.share !== undefined) this.#bucketOf(holding.share).leave(holding.id)
    this.#drop(holding)
  }

  /** Forgets a bucket of a stream, and a limit that no stream uses. What is assigned counts until it expires. */
  #drop({ share, id }: Holding): void {
    if (share?.holdings.delete(id) && share.holdings.size === 0) this.#shared.delete(share.name)
  }

  /** A process forgets its part of a limit that no proxy uses for a time. */
  #bucketOf(share: SharedLimit): PodBucket {
    if (share.pod.isForgotten) share.pod = this.#options.pods.open(share.name, share.capacity.tokens)
    return share.pod
  }

  /**
   * Returns undefined for a bucket without a limit. It is abandoned as soon as it has no requests, because it would be
   * reported again with its next request, or at once if its limit was removed.
   */
  #assign(
    holding: Holding,
    { allowed, denied, elapsedMs }: QuotaUsage,
    isFirst: boolean,
    nowMs: number,
  ): QuotaAssignment | undefined {
    const requests = allowed + denied
    if (requests > 0) holding.usedAtMs = nowMs
    const { bucket, share, id } = holding
    const idle =
      share === undefined
        ? requests === 0 || holding.granted > 0
        : nowMs - holding.usedAtMs >= idleAfterMs(share.capacity)
    if (idle) return { bucket, action: 'abandon' }
    if (share === undefined) return undefined
    const { limit, capacity } = share
    if (limit.shadowMode || this.#options.shadowMode) {
      return { bucket, action: 'allow', ttlSeconds: proxyTtlMs / 1000 }
    }
    holding.sequence += 1
    const perSecond = elapsedMs > 0 ? (requests * 1000) / elapsedMs : requests
    const wanted = Math.min(capacity.tokens, Math.ceil(perSecond * capacity.intervalSeconds))
    holding.wanted = steadyDemand(wanted, holding.wanted)
    // A bucket that had requests before this stream began may have an assignment of another process.
    const isReturning = isFirst && (elapsedMs > 0 || requests > 1)
    const pod = this.#bucketOf(share)
    const report = { wanted: holding.wanted, held: heldOf(holding, pod, nowMs), sequence: holding.sequence }
    const used = isReturning ? usedOfShare({ allowed, elapsedMs }, capacity) : undefined
    const grant =
      pod.report(id, report, nowMs, used) ?? (isEnding(holding, nowMs) ? pod.nothingAt(nowMs) : undefined)
    return grant && setGrant(holding, grant, capacity, nowMs)
  }

  /** Returns undefined if there are too many buckets. */
  #share(domain: string, key: string, limit: Limit<unknown>): SharedLimit | undefined {
    const { name, ...capacity } = nameCapacity(key, limit)
    if (!this.#options.pods.hasRoomFor(name)) return undefined
    const pod = this.#options.pods.open(name, capacity.tokens)
    const holdings = new Map<string, Holding>()
    const share = this.#shared.get(name) ?? { name, domain, limit, capacity, pod, holdings }
    this.#shared.set(name, Object.assign(share, { limit, capacity, pod }))
    return share
  }
}

const hasRequests = ({ allowed, denied }: QuotaUsage) => allowed + denied > 0

/** Returns how much a returning proxy has used of the share that it may have. */
function usedOfShare(
  { allowed, elapsedMs }: Pick<QuotaUsage, 'allowed' | 'elapsedMs'>,
  { tokens, intervalSeconds }: QuotaCapacity,
): number {
  const used = (allowed * 1000 * intervalSeconds) / Math.max(elapsedMs, reportedEveryMs)
  // Both divisions keep a part, so that this one had no assignment, or an expired one.
  return used > tokens * (1 - 1 / reservedParts) ? 0 : Math.floor(used)
}

/** Several buckets of a member can have one limit: the first one has the name of the member. */
function findId(share: SharedLimit, name: string, { entries, holding }: QuotaBucket): string {
  if (holding?.share === share) return holding.id
  return share.holdings.has(name)
    ? `${name} ${entries.map(({ key, value }) => `${key}=${value}`).join()}`
    : name
}

/**
 * Returns the most that a proxy may use which reports now. What was sent before has arrived by now if it was sent
 * `transportMs` ago: a report after a shorter time confirms nothing, because it does not tell what its sender has read.
 */
function mostUsable({ granted, held, assignedAtMs, endsAtMs }: Holding, nowMs: number): number {
  if (nowMs >= endsAtMs) return 0
  return nowMs - assignedAtMs >= transportMs ? granted : Math.max(held, granted)
}

/**
 * Returns how much the proxy may be using. What it has from another process that has handed it over lasts until this
 * process tells it a share, which it does not if that is nothing.
 */
function heldOf(holding: Holding, pod: PodBucket, nowMs: number): number {
  const most = mostUsable(holding, nowMs)
  if (holding.isTold || nowMs >= holding.endsAtMs) return most
  return Math.max(most, pod.membersAt(nowMs).get(holding.id)?.held ?? 0)
}

/**
 * Whether the share that this process has told ends before the answer to the next report. It is told again even if there
 * is nothing: without a share, a proxy would use the whole limit.
 */
function isEnding({ isTold, endsAtMs }: Holding, nowMs: number): boolean {
  return isTold && endsAtMs - nowMs < reportedEveryMs + 2 * transportMs
}

function setGrant(
  holding: Holding,
  { amount, ttlSeconds }: PodGrant,
  capacity: QuotaCapacity,
  nowMs: number,
): QuotaAssignment {
  holding.held = mostUsable(holding, nowMs)
  holding.granted = amount
  holding.isTold = true
  holding.assignedAtMs = nowMs
  holding.endsAtMs = nowMs + ttlSeconds * 1_000 + transportMs
  return {
    bucket: holding.bucket,
    action: 'limit',
    tokensPerFill: amount,
    maxTokens: toBucketSize(capacity, amount),
    fillIntervalSeconds: capacity.intervalSeconds,
    ttlSeconds,
  }
}
