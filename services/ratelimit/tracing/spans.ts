import type { ReadHeader, Span, Tracing } from '@tollway/chassis/tracing.ts'
import type { Hit } from '../counters/counters.ts'
import type { DecisionRequest } from '../limiter/decision.ts'
import { requestText } from './request-text.ts'

/**
 * The spans of a rate limit call, under the reference's names. Each begins with one of these functions and
 * ends by `Span.end` or `Span.run`. Unlike there, what happens within a decision is a child of its span.
 */

/** A call, from its request to its decision. undefined when the call is not sampled. */
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

/** After the decision, the making of the JSON answer. */
export function startJsonAnswer(decision: Span): Span {
  return decision.child('NewJsonHandler Remaining Execution')
}

/** Begins the span of one call's counting, from the handing over of its hits to their values. */
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

/** The span of each backend's counting. In this process's memory it is none of its own. */
export const countingSpans: Readonly<Record<'redis' | 'memcache' | 'memory', StartCounting | undefined>> = {
  redis: startRedisCounting,
  memcache: startMemcachedCounting,
  memory: undefined,
}
