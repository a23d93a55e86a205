import type { Span } from '@tollway/chassis/tracing/tracing.ts'
import type { LoggedRequest } from '../stream-log/stream-log.ts'
import type { StreamContext } from './stream-context.ts'

/**
 * Starts the span of a push, or of one request of a pull. The parent is that of the producer's call, so that
 * the spans of producer and consumers belong to one trace. Undefined if the request is not traced.
 */
export function startRequestSpan(
  { tracing }: Pick<StreamContext, 'tracing'>,
  name: 'Push' | 'Pull',
  { ids, route, sourceServiceId, traceparent }: LoggedRequest,
): Span | undefined {
  const readHeader = (header: string) => (header === 'traceparent' ? traceparent : undefined)
  return tracing?.startSpan(name, readHeader, () => ({
    'stream id': ids.streamId,
    'request id': ids.requestId,
    'target object id': ids.targetObjectId,
    'source service id': sourceServiceId,
    route,
  }))
}
