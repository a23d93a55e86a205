import type { AnyMethod, Method } from '@tollway/grpc/server.ts'
import { GrpcError } from '@tollway/grpc/status.ts'
import { CountersError } from '../counters/counters.ts'
import { type Decision, type DecisionRequest, RequestError } from '../limiter/decision.ts'
import type { Limiter } from '../limiter/limiter.ts'
import type { Stats } from '../stats/stats.ts'
import { decodeDecisionRequest } from './decode-decision-request.ts'
import { encodeDecision } from './encode-decision.ts'

/**
 * envoy.service.ratelimit.v3.RateLimitService. Errors have the reference's code: UNKNOWN. A decision that
 * the limiter has at once is answered at once.
 */
export function rateLimitMethods(limiter: Limiter, stats: Stats): readonly AnyMethod[] {
  const requests = stats.counter('ratelimit_server.ShouldRateLimit.total_requests')
  const shouldRateLimit: Method<DecisionRequest | GrpcError, Decision> = {
    path: '/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit',
    kind: 'unary',
    decode: decodeOrRefuse,
    encode: encodeDecision,
    handle(request) {
      requests.value += 1
      if (request instanceof GrpcError) throw request
      try {
        const decision = limiter.decide(request)
        return decision instanceof Promise ? decision.catch(throwStatus) : decision
      } catch (error) {
        return throwStatus(error)
      }
    },
  }
  return [shouldRateLimit]
}

/** A refusal has a status of its own, which only a handler can give. */
function decodeOrRefuse(bytes: Uint8Array): DecisionRequest | GrpcError {
  try {
    return decodeDecisionRequest(bytes)
  } catch (error) {
    if (error instanceof GrpcError) return error
    throw error
  }
}

function throwStatus(error: unknown): never {
  if (error instanceof CountersError) throw new GrpcError('UNKNOWN', error.message)
  if (!(error instanceof RequestError)) throw error
  throw new GrpcError(error.invalid ? 'INVALID_ARGUMENT' : 'UNKNOWN', error.message)
}
