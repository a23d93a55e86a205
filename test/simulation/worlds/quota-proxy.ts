import { create, fromBinary, toBinary } from '@bufbuild/protobuf'
import type { BidiCall, GrpcClient } from '@tollway/grpc/client/client.ts'
import type { Codec } from '@tollway/grpc/server.ts'
import {
  type RateLimitQuotaResponse,
  RateLimitQuotaResponseSchema,
  type RateLimitQuotaUsageReports,
  RateLimitQuotaUsageReportsSchema,
} from '@tollway/proto/envoy/service/rate_limit_quota/v3/rlqs'
import type { SimulatedProcess } from '../engine/simulation.ts'

type Reports = RateLimitQuotaUsageReports
type Action = RateLimitQuotaResponse['bucketAction'][number]

const path = '/envoy.service.rate_limit_quota.v3.RateLimitQuotaService/StreamRateLimitQuotas'
const codec: Codec<RateLimitQuotaResponse, Reports> = {
  encode: reports => toBinary(RateLimitQuotaUsageReportsSchema, reports),
  decode: bytes => fromBinary(RateLimitQuotaResponseSchema, bytes),
}

const reportMs = 5_000
/** How often requests come. A full bucket lasts for four times as long at least. */
const tickMs = 250

interface TokenBucket {
  readonly tokensPerFill: number
  readonly maxTokens: number
  readonly fillIntervalSeconds: number
}

/** What a proxy may use of a bucket. */
interface Assignment extends TokenBucket {
  readonly arrivedMs: number
  readonly endMs: number
}

/** What a proxy uses after the end of an assignment: `expired_assignment_behavior` of its configuration. */
export interface ExpiredBehavior extends TokenBucket {
  readonly timeoutMs: number
}

/** By what a proxy decides. */
type Basis = 'share' | 'fallback' | 'nothing'

interface CachedBucket {
  assignment: Assignment | undefined
  /** Whether the assignment is that of the configuration. */
  isFallback: boolean
  tokens: number
  filledMs: number
  allowed: number
  denied: number
  reportedMs: number
}

interface ProxyOptions {
  readonly domain: string
  readonly client: GrpcClient
  /** The requests a second of each user. */
  readonly demand: ReadonlyMap<string, number>
  /** Called with the requests that were admitted. */
  readonly onAdmitted: (user: string, requests: number, basis: Basis) => void
  /** Called with the tokens of the bucket if it had no share before. */
  readonly onAssigned: (user: string, tokens: number) => void
  readonly expired: (user: string) => ExpiredBehavior
  /** For how long an assignment counts that says this time to live. */
  readonly ttlMs: (seconds: number) => number
}

/** An Envoy with the filter rate_limit_quota, as docs/decisions/0098 describes it. */
export class QuotaProxy {
  readonly #process: SimulatedProcess
  readonly #options: ProxyOptions
  readonly #buckets = new Map<string, CachedBucket>()
  /** Parts of requests that have not come yet. */
  readonly #rest = new Map<string, number>()
  #stream: BidiCall<Reports, RateLimitQuotaResponse> | undefined

  constructor(process: SimulatedProcess, options: ProxyOptions) {
    this.#process = process
    this.#options = options
    setInterval(() => this.#serve(), tickMs)
    process.after(reportMs * process.random(), () => setInterval(() => this.#report(), reportMs))
  }

  /** Returns the share that counts now. */
  share(user: string, nowMs: number): Assignment | undefined {
    const { assignment, isFallback } = this.#buckets.get(user) ?? {}
    return assignment !== undefined && !isFallback && nowMs < assignment.endMs ? assignment : undefined
  }

  #serve(): void {
    const nowMs = this.#process.clock.monotonicMs()
    for (const [user, perSecond] of this.#options.demand) {
      const requests = (this.#rest.get(user) ?? 0) + (perSecond * tickMs) / 1_000
      this.#rest.set(user, requests % 1)
      if (requests >= 1) this.#admit(user, Math.floor(requests), nowMs)
    }
  }

  #admit(user: string, requests: number, nowMs: number): void {
    const known = this.#buckets.get(user)
    const bucket = known ?? {
      assignment: undefined,
      isFallback: false,
      tokens: 0,
      filledMs: nowMs,
      allowed: 0,
      denied: 0,
      reportedMs: nowMs,
    }
    let admitted = requests
    const assignment = this.#current(user, bucket, nowMs)
    // Without one, the printed configuration admits all requests.
    if (assignment !== undefined) {
      fill(bucket, assignment, nowMs)
      admitted = Math.min(requests, Math.floor(bucket.tokens))
      bucket.tokens -= admitted
    }
    const basis = assignment === undefined ? 'nothing' : bucket.isFallback ? 'fallback' : 'share'
    this.#options.onAdmitted(user, admitted, basis)
    bucket.allowed += admitted
    bucket.denied += requests - admitted
    if (known !== undefined) return
    this.#buckets.set(user, bucket)
    this.#send([user], nowMs)
  }

  /** Returns the assignment of a bucket. One that has expired gives way to the fallback, and that to none. */
  #current(user: string, bucket: CachedBucket, nowMs: number): Assignment | undefined {
    for (let last = bucket.assignment; last !== undefined && nowMs >= last.endMs; last = bucket.assignment) {
      const { endMs } = last
      const { timeoutMs, ...fallback } = this.#options.expired(user)
      if (bucket.isFallback) bucket.assignment = undefined
      else replace(bucket, { ...fallback, arrivedMs: endMs, endMs: endMs + timeoutMs }, endMs)
      bucket.isFallback = !bucket.isFallback
    }
    return bucket.assignment
  }

  /** Reports all buckets, in whole seconds. */
  #report(): void {
    const nowMs = this.#process.clock.monotonicMs()
    if (this.#buckets.size > 0) this.#send([...this.#buckets.keys()], nowMs)
  }

  #send(users: readonly string[], nowMs: number): void {
    const bucketQuotaUsages = users.flatMap(user => {
      const bucket = this.#buckets.get(user)
      if (bucket === undefined) return []
      const { allowed, denied, reportedMs } = bucket
      // The counts of a report that does not arrive are lost.
      Object.assign(bucket, { allowed: 0, denied: 0, reportedMs: nowMs })
      return [
        {
          bucketId: { bucket: { user } },
          timeElapsed: { seconds: BigInt(Math.floor((nowMs - reportedMs) / 1_000)) },
          numRequestsAllowed: BigInt(allowed),
          numRequestsDenied: BigInt(denied),
        },
      ]
    })
    this.#stream ??= this.#open()
    const { domain } = this.#options
    void this.#stream.write(create(RateLimitQuotaUsageReportsSchema, { domain, bucketQuotaUsages }))
  }

  #open(): BidiCall<Reports, RateLimitQuotaResponse> {
    const stream = this.#options.client.bidi(path, codec)
    const read = async () => {
      for await (const { bucketAction } of stream.messages) {
        for (const action of bucketAction) this.#take(action)
      }
    }
    const end = () => {
      if (this.#stream === stream) this.#stream = undefined
    }
    read().then(end, end)
    return stream
  }

  #take({ bucketId, bucketAction }: Action): void {
    const user = bucketId?.bucket['user'] ?? ''
    const bucket = this.#buckets.get(user)
    if (bucket === undefined) return
    if (bucketAction.case === 'abandonAction') {
      this.#buckets.delete(user)
      return
    }
    if (bucketAction.case !== 'quotaAssignmentAction') return
    const { assignmentTimeToLive, rateLimitStrategy } = bucketAction.value
    const strategy = rateLimitStrategy?.strategy
    if (strategy?.case !== 'tokenBucket') return
    const { maxTokens, tokensPerFill = 0, fillInterval } = strategy.value
    const nowMs = this.#process.clock.monotonicMs()
    const before = this.#current(user, bucket, nowMs)
    const isChanged = before?.maxTokens !== maxTokens || before?.tokensPerFill !== tokensPerFill
    const seconds = Number(fillInterval?.seconds)
    const isFirst = before === undefined || bucket.isFallback
    const next = {
      tokensPerFill,
      maxTokens,
      // A change of it alone is not noticed.
      fillIntervalSeconds: isChanged ? seconds : before.fillIntervalSeconds,
      arrivedMs: nowMs,
      endMs: nowMs + this.#options.ttlMs(Number(assignmentTimeToLive?.seconds)),
    }
    replace(bucket, next, nowMs)
    bucket.isFallback = false
    this.#options.onAssigned(user, isFirst ? bucket.tokens : 0)
    if (isChanged) this.#process.note(`may admit ${(tokensPerFill / seconds).toFixed(1)}/s of ${user}`)
  }
}

/** A new bucket is full, and a changed one keeps the ratio of its fill. */
function replace(bucket: CachedBucket, next: Assignment, nowMs: number): void {
  const { assignment } = bucket
  if (assignment === undefined) bucket.tokens = next.maxTokens
  else {
    fill(bucket, assignment, nowMs)
    bucket.tokens *= next.maxTokens / assignment.maxTokens
  }
  bucket.assignment = next
  bucket.filledMs = nowMs
}

function fill(bucket: CachedBucket, assignment: Assignment, nowMs: number): void {
  const { maxTokens, tokensPerFill, fillIntervalSeconds } = assignment
  const perMs = tokensPerFill / fillIntervalSeconds / 1_000
  bucket.tokens = Math.min(maxTokens, bucket.tokens + perMs * (nowMs - bucket.filledMs))
  bucket.filledMs = nowMs
}
