import type { Clock } from '@tollway/chassis/clock.ts'
import type { Span, Tracing } from '@tollway/chassis/tracing/tracing.ts'
import { fromMetadata } from '@tollway/grpc/calls/call-headers.ts'
import type { AnyMethod, Call, Method } from '@tollway/grpc/server.ts'
import { GrpcError } from '@tollway/grpc/status.ts'
import { CountersError } from '../counters/counters.ts'
import { type DecisionRequest, type RateLimitDecision, RequestError } from '../limiter/decision.ts'
import type { Limiter } from '../limiter/limiter.ts'
import { startDecision } from '../spans.ts'
import type { Stats } from '../stats/stats.ts'
import { decodeDecisionRequest } from './decode-decision-request.ts'
import { encodeDecision } from './encode-decision.ts'

interface RateLimitMethodsOptions {
  readonly limiter: Limiter
  readonly stats: Stats
  readonly clock: Clock
  /** Undefined when calls are not traced. */
  readonly tracing?: Tracing | undefined
}

/**
 * Creates the methods of envoy.service.ratelimit.v3.RateLimitService and of Kuadrant's service, which takes the
 * same messages. As in envoyproxy/ratelimit, errors have the code UNKNOWN; only an invalid request gets
 * INVALID_ARGUMENT. A decision that the limiter makes synchronously is answered synchronously.
 */
export function rateLimitMethods(options: RateLimitMethodsOptions): readonly AnyMethod[] {
  const { limiter } = options
  const kuadrant = '/kuadrant.service.ratelimit.v1.RateLimitService'
  return [
    decisionMethod('/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit', options, (request, span) =>
      limiter.decide(request, span),
    ),
    decisionMethod(`${kuadrant}/CheckRateLimit`, options, (request, span) =>
      limiter.decide({ ...request, purpose: 'check' }, span),
    ),
    decisionMethod(`${kuadrant}/Report`, options, async (request, span) =>
      withoutRejection(await limiter.decide({ ...request, purpose: 'report' }, span)),
    ),
  ]
}

type Decide = (request: DecisionRequest, span?: Span) => RateLimitDecision | Promise<RateLimitDecision>

function decisionMethod(
  path: string,
  { stats, clock, tracing }: RateLimitMethodsOptions,
  decide: Decide,
): Method<DecisionRequest | GrpcError, RateLimitDecision> {
  const name = path.slice(path.lastIndexOf('/') + 1)
  const open = () => ({
    requests: stats.counter(`ratelimit_server.${name}.total_requests`),
    responseTimes: stats.histogram(`ratelimit_server.${name}.response_time`),
  })
  // Only the statistics of envoyproxy/ratelimit exist before a call.
  let measured = name === 'ShouldRateLimit' ? open() : undefined

  function traced(by: Tracing, request: DecisionRequest, call: Call): ReturnType<Decide> {
    const span = startDecision(by, request, fromMetadata(call.metadata))
    return span ? span.run(() => decide(request, span)) : decide(request)
  }

  /** A function of its own, so that only asynchronous calls allocate closures. */
  function takenLater(decision: Promise<RateLimitDecision>, startedMs: number): Promise<RateLimitDecision> {
    return decision.then(
      taken => {
        recordSince(startedMs)
        return taken
      },
      (error: unknown) => {
        recordSince(startedMs)
        return throwStatus(error)
      },
    )
  }

  function recordSince(startedMs: number): void {
    measured?.responseTimes.record(clock.monotonicMs() - startedMs)
  }

  return {
    path,
    kind: 'unary',
    decode: orError(decodeDecisionRequest),
    encode: encodeDecision,
    handle(request, call) {
      const startedMs = clock.monotonicMs()
      measured ??= open()
      measured.requests.value += 1
      try {
        if (request instanceof GrpcError) throw request
        const decision = tracing ? traced(tracing, request, call) : decide(request)
        if (decision instanceof Promise) return takenLater(decision, startedMs)
        recordSince(startedMs)
        return decision
      } catch (error) {
        recordSince(startedMs)
        return throwStatus(error)
      }
    },
  }
}

/** A report is never rejected, although its hits may be beyond the limits. */
function withoutRejection({ body: _, ...decision }: RateLimitDecision): RateLimitDecision {
  const statuses = decision.statuses.map(status => ({ ...status, over: false }))
  return { ...decision, over: false, statuses }
}

/** Returns a decoder that returns a GrpcError instead of throwing it, since only a handler can set the status. */
export function orError<In>(decode: (bytes: Uint8Array) => In): (bytes: Uint8Array) => In | GrpcError {
  return bytes => {
    try {
      return decode(bytes)
    } catch (error) {
      if (error instanceof GrpcError) return error
      throw error
    }
  }
}

function throwStatus(error: unknown): never {
  if (error instanceof CountersError) throw new GrpcError('UNKNOWN', error.message)
  if (!(error instanceof RequestError)) throw error
  throw new GrpcError(error.invalid ? 'INVALID_ARGUMENT' : 'UNKNOWN', error.message)
}

/**
 * Returns a function that counts the calls of grpc.health.v1 Check among the calls of the server, as
 * envoyproxy/ratelimit does. The statistics exist from the first Check on.
 */
export function countHealthChecks(stats: Stats): (tookMs: number) => void {
  return tookMs => {
    stats.counter('ratelimit_server.Check.total_requests').value += 1
    stats.histogram('ratelimit_server.Check.response_time').record(tookMs)
  }
}
