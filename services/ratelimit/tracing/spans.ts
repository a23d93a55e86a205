import type { ReadHeader, Span, Tracing } from '@tollway/chassis/tracing/tracing.ts'
import type { Hit } from '../counters/counters.ts'
import type { DecisionRequest } from '../limiter/decision.ts'
import { requestText } from './request-text.ts'

/**
 * The spans of a rate limit call, under the reference's names. Each begins with one of these functions and
 * ends with `Span.end` or `Span.run`. Unlike there, the steps of a decision are children of its span.
 */

/**
 * Starts the span of a call, from its request to its decision. Returns undefined when the call is not
 * sampled.
 */
export function startDecision(
  tracing: Tracing,
  request: DecisionRequest,
  readHeader: ReadHeader,
): Span | undefined {
  return tracing.startSpan('ShouldRateLimit Execution', readHeader, () => ({
    domain: request.domain,
    'request string': requestText(request),
  }))
}

/** Starts the span of the JSON answer, after the decision. */
export function startJsonAnswer(decision: Span): Span {
  return decision.child('NewJsonHandler Remaining Execution')
}

/** Starts the span of one call's counting. */
export type StartCounting = (decision: Span, batch: readonly Hit[]) => Span

/** Lengths are in hits. */
export const startRedisCounting: StartCounting = (decision, batch) => {
  let perSecond = 0
  for (const hit of batch) if (hit.perSecond) perSecond += 1
  return decision.child('Redis Pipeline Execution', {
    'pipeline length': batch.length - perSecond,
    'perSecondPipeline length': perSecond,
  })
}

export const startMemcachedCounting: StartCounting = (decision, batch) =>
  decision.child('Memcached Fetch Execution', { 'keysToGet length': batch.length })

/** The span of each backend's counting; counting in this process's memory has none. */
export const countingSpans: Readonly<Record<'redis' | 'memcache' | 'memory', StartCounting | undefined>> = {
  redis: startRedisCounting,
  memcache: startMemcachedCounting,
  memory: undefined,
}
