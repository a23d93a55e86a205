import type { Clock } from '@tollway/chassis/clock.ts'
import type { Span, Tracing } from '@tollway/chassis/tracing/tracing.ts'
import type { Metadata } from '@tollway/grpc/server.ts'
import type { BrokerStats } from '../broker-stats.ts'
import type { Route } from '../routes/route.ts'
import type { RouteTable } from '../routes/route-table.ts'
import type { LoggedRequest, StreamLog } from '../stream-log/stream-log.ts'
import type { KeyedCounter } from './keyed-counter.ts'

export interface BrokerOptions {
  readonly log: StreamLog
  readonly routes: Pick<RouteTable, 'choose' | 'onChange'>
  readonly stats: BrokerStats
  /** Called with each request that a push begins here. */
  readonly onBegun: (request: LoggedRequest) => void
  readonly clock: Clock
  readonly limits: BrokerLimits
  /** Undefined if calls are not traced. */
  readonly tracing: Tracing | undefined
  /** Creates the `traceparent` of a push that has none; empty if calls are not traced. */
  readonly newTraceparent: () => string
}

/** The state that all pushes and pulls of one process share. */
export interface StreamContext extends BrokerOptions {
  /** The number of running pushes, by the name of their route. */
  readonly requestsOfRoute: KeyedCounter
  /** The number of pulls, by the key of the request that they serve. */
  readonly consumersOfRequest: KeyedCounter
}

/** Returns the route that applies now. */
export function findRoute({ routes }: StreamContext, { ids, sourceServiceId }: LoggedRequest): Route {
  const { streamId, targetObjectId } = ids
  return routes.choose({ sourceServiceId, streamId, targetObjectId })
}

/** The limits of this process for all routes, named as in the settings. */
interface BrokerLimits {
  readonly maxPushes: number
  readonly maxPulls: number
  /** The most requests in the queue of one pull. */
  readonly maxWaitingRequests: number
  /** The longest wait of a pull for a matching request; 0 for no limit. */
  readonly pullIdleMs: number
  readonly headerWaitMs: number
  /** How long a request waits for a producer whose connection was lost; 0 disables resumption. */
  readonly resumeGraceMs: number
}

export interface PullCaller {
  readonly metadata: Metadata
  /** The address of the caller, for lists and logs. */
  readonly peer: string
}

export interface PushCaller extends PullCaller {
  /** Called at most once. */
  sendHeaders(metadata: Metadata): void
}

/**
 * Starts the span of a push, or of one request of a pull. Its parent is the `traceparent` of the push, so
 * that producer and consumers are in one trace. Returns undefined if the request is not traced.
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
