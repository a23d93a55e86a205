import { fromBinary, toBinary } from '@bufbuild/protobuf'
import type { AnyMethod, Method } from '@tollway/grpc/server.ts'
import { GrpcError } from '@tollway/grpc/status.ts'
import {
  type RateLimitRequest,
  RateLimitRequestSchema,
  type RateLimitResponse,
  RateLimitResponseSchema,
} from '@tollway/proto/envoy/service/ratelimit/v3/rls'
import { CountersError } from '../counters/counters.ts'
import { RequestError } from '../limiter/decision.ts'
import type { Limiter } from '../limiter/limiter.ts'
import type { Stats } from '../stats/stats.ts'
import { toDecisionRequest, toResponse } from './messages.ts'
import { hasTooManyParts, maxParts } from './request-parts.ts'

/** envoy.service.ratelimit.v3.RateLimitService. Errors have the reference's code: UNKNOWN. */
export function rateLimitMethods(limiter: Limiter, stats: Stats): readonly AnyMethod[] {
  const requests = stats.counter('ratelimit_server.ShouldRateLimit.total_requests')
  const shouldRateLimit: Method<RateLimitRequest | GrpcError, RateLimitResponse> = {
    path: '/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit',
    kind: 'unary',
    decode: bytes => (hasTooManyParts(bytes) ? tooManyParts() : fromBinary(RateLimitRequestSchema, bytes)),
    encode: message => toBinary(RateLimitResponseSchema, message),
    async handle(request) {
      requests.value += 1
      if (request instanceof GrpcError) throw request
      try {
        return toResponse(await limiter.decide(toDecisionRequest(request)))
      } catch (error) {
        throw asStatus(error)
      }
    },
  }
  return [shouldRateLimit]
}

function tooManyParts(): GrpcError {
  return new GrpcError('INVALID_ARGUMENT', `descriptors: at most ${maxParts} and their entries are allowed`)
}

function asStatus(error: unknown): unknown {
  if (error instanceof CountersError) return new GrpcError('UNKNOWN', error.message)
  if (!(error instanceof RequestError)) return error
  return new GrpcError(error.invalid ? 'INVALID_ARGUMENT' : 'UNKNOWN', error.message)
}
