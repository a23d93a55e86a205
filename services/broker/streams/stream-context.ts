import type { Clock } from '@tollway/chassis/clock.ts'
import type { Span, Tracing } from '@tollway/chassis/tracing/tracing.ts'
import type { Metadata } from '@tollway/grpc/server.ts'
import type { BrokerStats } from '../broker-stats.ts'
import type { Route } from '../routes/route.ts'
import type { RouteTable } from '../routes/route-table.ts'
import type { LoggedRequest, StreamLog } from '../stream-log/stream-log.ts'
import type { KeyedCounter } from './keyed-counter.ts'

/** The environment of a broker. */
export interface BrokerOptions {
  readonly log: StreamLog
  readonly routes: Pick<RouteTable, 'choose' | 'onChange'>
  readonly stats: BrokerStats
  /** Called with each request whose push this broker has accepted. */
  readonly onBegun: (request: LoggedRequest) => void
  readonly clock: Clock
  readonly limits: BrokerLimits
  /** Undefined if calls are not traced. */
  readonly tracing: Tracing | undefined
  /** Creates the `traceparent` of a push that has none; empty if calls are not traced. */
  readonly newTraceparent: () => string
}

/** Shared by the pushes and pulls of one process. */
export interface StreamContext extends BrokerOptions {
  /** Running pushes by the name of their route. */
  readonly requestsOfRoute: KeyedCounter
  /** Pulls by the key of the request that they serve. */
  readonly consumersOfRequest: KeyedCounter
}

/** The current route of a request. */
export function findRoute({ routes }: StreamContext, { ids, sourceServiceId }: LoggedRequest): Route {
  const { streamId, targetObjectId } = ids
  return routes.choose({ sourceServiceId, streamId, targetObjectId })
}

/** The limits of this process, for all routes. */
export interface BrokerLimits {
  /** The maximum numbers of concurrent pushes and pulls. */
  readonly pushes: number
  readonly pulls: number
  /** The maximum time that a pull waits for a matching request; 0 for no limit. */
  readonly pullIdleMs: number
  /** The maximum time until the header of a push. */
  readonly headerWaitMs: number
  /** The maximum number of requests in the queue of one pull. */
  readonly waitingRequests: number
  /** The time that a request waits for a producer with a lost connection; 0 disables resumption. */
  readonly resumeGraceMs: number
}

export interface PullCaller {
  readonly metadata: Metadata
  /** The address of the caller, for lists and logs. */
  readonly peer: string
}

export interface PushCaller extends PullCaller {
  /** Sends the initial metadata of the response, once. */
  sendHeaders(metadata: Metadata): void
}

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
