import { create, fromBinary, toBinary } from '@bufbuild/protobuf'
import type { Clock } from '@tollway/chassis/clock.ts'
import { createGrpcClient } from '@tollway/grpc/client/client.ts'
import type { Codec } from '@tollway/grpc/server.ts'
import {
  type RateLimitRequest,
  RateLimitRequestSchema,
  type RateLimitResponse,
  RateLimitResponse_Code,
  type RateLimitResponse_DescriptorStatus,
  RateLimitResponseSchema,
} from '@tollway/proto/envoy/service/ratelimit/v3/rls'
import type { CallHit, CallLimitExceeded, CallLimits } from './call-limits.ts'

export interface ServiceCallLimitsOptions {
  readonly address: string
  readonly domain: string
  readonly timeoutMs: number
  /**
   * The limits that apply while the service does not answer, and to rules for which the service has no limit.
   */
  readonly local: CallLimits
  readonly clock: Clock
  /** Called for each failed call of the service. After a failure, no call begins for `retryMs`. */
  readonly onFailure: (reason: string) => void
}

/** How long after a failure the service is not called. */
const retryMs = 1_000
const minWaitMs = 1
const connectMs = 3_000
const path = '/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit'

const codec: Codec<RateLimitResponse, RateLimitRequest> = {
  encode: request => toBinary(RateLimitRequestSchema, request),
  decode: bytes => fromBinary(RateLimitResponseSchema, bytes),
}

/** Counts calls in a rate limit service, so that all processes count together. */
export function createServiceCallLimits(options: ServiceCallLimitsOptions): CallLimits {
  const { address, domain, timeoutMs, local, clock, onFailure } = options
  const client = createGrpcClient(address)
  let askAgainMs = 0
  // Opens the connection in advance, because that can take longer than `timeoutMs`.
  ask([{ rule: 'address', value: 'start' }], connectMs).catch(() => {})

  async function ask(
    hits: readonly CallHit[],
    limitMs: number,
  ): Promise<readonly RateLimitResponse_DescriptorStatus[]> {
    const descriptors = hits.map(({ rule, value }) => ({ entries: [{ key: rule, value }] }))
    const request = create(RateLimitRequestSchema, { domain, descriptors })
    return (await client.unary(path, codec, request, { timeoutMs: limitMs })).statuses
  }

  return {
    async take(hits) {
      if (clock.monotonicMs() < askAgainMs) return local.take(hits)
      let statuses: readonly RateLimitResponse_DescriptorStatus[]
      try {
        statuses = await ask(hits, timeoutMs)
      } catch (error) {
        askAgainMs = clock.monotonicMs() + retryMs
        onFailure((error as Error).message)
        return local.take(hits)
      }
      const unlimited = hits.filter((_, index) => statuses[index]?.currentLimit === undefined)
      const [rejection = null] = hits.flatMap(({ rule }, index) => toRejections(rule, statuses[index]))
      return rejection ?? (unlimited.length === 0 ? null : local.take(unlimited))
    },
    close: () => client.close(),
  }
}

function toRejections(
  rule: CallHit['rule'],
  status: RateLimitResponse_DescriptorStatus | undefined,
): readonly CallLimitExceeded[] {
  if (status?.code !== RateLimitResponse_Code.OVER_LIMIT) return []
  const { seconds = 0n, nanos = 0 } = status.durationUntilReset ?? {}
  return [{ rule, waitMs: Math.max(minWaitMs, Number(seconds) * 1_000 + Math.ceil(nanos / 1e6)) }]
}
