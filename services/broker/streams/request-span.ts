import type { Span } from '@tollway/chassis/tracing.ts'
import type { LoggedRequest } from '../log/stream-log.ts'
import type { StreamContext } from './stream-context.ts'

/**
 * A push, or the part of a pull that is one request. The parent is what the producer's call named, so that a
 * producer's and its consumers' spans are of one trace. undefined when the request is not traced.
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
