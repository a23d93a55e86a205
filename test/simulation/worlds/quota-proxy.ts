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
const tickMs = 100

/** What a proxy may use of a bucket. */
export interface Assignment {
  readonly tokensPerFill: number
  readonly maxTokens: number
  readonly fillIntervalSeconds: number
  readonly arrivedMs: number
  readonly endMs: number
}

interface CachedBucket {
  assignment: Assignment | undefined
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
  /** Called with the requests that an assignment has admitted. */
  readonly onAdmitted: (user: string, requests: number) => void
  readonly onAssigned: () => void
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

  /** Returns the assignment that counts now. */
  assignment(user: string, nowMs: number): Assignment | undefined {
    const assignment = this.#buckets.get(user)?.assignment
    return assignment !== undefined && nowMs < assignment.endMs ? assignment : undefined
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
      tokens: 0,
      filledMs: nowMs,
      allowed: 0,
      denied: 0,
      reportedMs: nowMs,
    }
    let admitted = requests
    const { assignment } = bucket
    // Without one, the printed configuration admits all requests, and after it has expired those of the whole limit.
    if (assignment !== undefined && nowMs < assignment.endMs) {
      fill(bucket, assignment, nowMs)
      admitted = Math.min(requests, Math.floor(bucket.tokens))
      bucket.tokens -= admitted
      this.#options.onAdmitted(user, admitted)
    }
    bucket.allowed += admitted
    bucket.denied += requests - admitted
    if (known !== undefined) return
    this.#buckets.set(user, bucket)
    this.#send([user], nowMs)
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
    const before = this.assignment(user, nowMs)
    if (before === undefined) bucket.tokens = maxTokens
    else {
      fill(bucket, before, nowMs)
      bucket.tokens *= maxTokens / before.maxTokens
    }
    bucket.filledMs = nowMs
    const isChanged = before?.maxTokens !== maxTokens || before?.tokensPerFill !== tokensPerFill
    const seconds = Number(fillInterval?.seconds)
    bucket.assignment = {
      tokensPerFill,
      maxTokens,
      // A change of it alone is not noticed.
      fillIntervalSeconds: isChanged ? seconds : before.fillIntervalSeconds,
      arrivedMs: nowMs,
      endMs: nowMs + this.#options.ttlMs(Number(assignmentTimeToLive?.seconds)),
    }
    this.#options.onAssigned()
    if (isChanged) this.#process.note(`may admit ${(tokensPerFill / seconds).toFixed(1)}/s of ${user}`)
  }
}

function fill(bucket: CachedBucket, assignment: Assignment, nowMs: number): void {
  const { maxTokens, tokensPerFill, fillIntervalSeconds } = assignment
  const perMs = tokensPerFill / fillIntervalSeconds / 1_000
  bucket.tokens = Math.min(maxTokens, bucket.tokens + perMs * (nowMs - bucket.filledMs))
  bucket.filledMs = nowMs
}
