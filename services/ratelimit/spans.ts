import { quote } from '@tollway/chassis/text.ts'
import { maxTextChars, type ReadHeader, type Span, type Tracing } from '@tollway/chassis/tracing/tracing.ts'
import type { Hit } from './counters/counters.ts'
import type { DecisionRequest, DescriptorRequest } from './limiter/decision.ts'

/**
 * The spans of a rate limit call have the names of envoyproxy/ratelimit. Each begins with one of these
 * functions and ends with `Span.end` or `Span.run`. Unlike in envoyproxy/ratelimit, the steps of a decision
 * are children of its span.
 */

/** The span of a call, from its request to its decision; undefined when it is not sampled. */
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

export function startJsonAnswer(decision: Span): Span {
  return decision.child('NewJsonHandler Remaining Execution')
}

export type StartCounting = (decision: Span, batch: readonly Hit[]) => Span

/**
 * A span of counting for each backend; the attributes are numbers of hits. Counting in the memory of this
 * process has no span.
 */
export const countingSpans = {
  redis(decision, batch) {
    let perSecond = 0
    for (const hit of batch) if (hit.perSecond) perSecond += 1
    return decision.child('Redis Pipeline Execution', {
      'pipeline length': batch.length - perSecond,
      'perSecondPipeline length': perSecond,
    })
  },
  memcache: (decision, batch) =>
    decision.child('Memcached Fetch Execution', { 'keysToGet length': batch.length }),
  memory: undefined,
} satisfies Readonly<Record<string, StartCounting | undefined>>

/**
 * Formats the request in protobuf's text format on one line, as the attribute of envoyproxy/ratelimit has it.
 * The result has at most `maxTextChars` characters, and ends with `…` if truncated. Formatting stops there,
 * so the cost is bounded for a request of a megabyte too.
 */
export function requestText(request: DecisionRequest): string {
  let text = ''
  for (const part of formatParts(request)) {
    text += part
    if (text.length > maxTextChars) return `${text.slice(0, maxTextChars - 1)}…`
  }
  return text
}

function* formatParts({ domain, descriptors, hitsAddend }: DecisionRequest): Generator<string> {
  yield `domain:${quote(domain, maxTextChars)}`
  for (const descriptor of descriptors) {
    yield ' descriptors:{'
    yield* formatDescriptor(descriptor)
    yield '}'
  }
  if (hitsAddend !== 0) yield ` hits_addend:${hitsAddend}`
}

function* formatDescriptor({ entries, limit, hitsAddend, givesBack }: DescriptorRequest): Generator<string> {
  let space = ''
  for (const { key, value } of entries) {
    yield `${space}entries:{key:${quote(key, maxTextChars)} value:${quote(value, maxTextChars)}}`
    space = ' '
  }
  if (limit !== undefined) {
    const unit = (limit.unit ?? 'unknown').toUpperCase()
    yield `${space}limit:{requests_per_unit:${limit.requestsPerUnit} unit:${unit}}`
    space = ' '
  }
  if (hitsAddend !== undefined) {
    yield `${space}hits_addend:{value:${hitsAddend}}`
    space = ' '
  }
  if (givesBack) yield `${space}is_negative_hits:true`
}
