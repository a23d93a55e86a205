import type { Clock } from '@tollway/chassis/clock.ts'
import type { Tracing } from '@tollway/chassis/tracing.ts'
import type { Metadata } from '@tollway/grpc/server.ts'
import type { LoggedRequest, StreamLog } from '../log/stream-log.ts'
import type { Route } from '../routes/route.ts'
import type { RouteTable } from '../routes/route-table.ts'
import type { BrokerStats } from '../stats/broker-stats.ts'
import type { Tally } from './tally.ts'

/** What pushes and pulls of one process share. */
export interface StreamContext {
  readonly log: StreamLog
  readonly routes: Pick<RouteTable, 'choose' | 'onChange'>
  readonly stats: BrokerStats
  readonly clock: Clock
  readonly limits: BrokerLimits
  /** undefined when calls are not traced. */
  readonly tracing: Tracing | undefined
  /** Makes the `traceparent` of a push that came without one; empty when calls are not traced. */
  readonly newTraceparent: () => string
  /** Running pushes by the name of their route. */
  readonly requestsOfRoute: Tally
  /** Pulls by the key of a request that they are served, or that waits for its turn in them. */
  readonly consumersOfRequest: Tally
}

/** The route that holds for a request now. */
export function routeOf({ routes }: StreamContext, { ids, sourceServiceId }: LoggedRequest): Route {
  const { streamId, targetObjectId } = ids
  return routes.choose({ sourceServiceId, streamId, targetObjectId })
}

/** Of this process, whatever the routes say. */
export interface BrokerLimits {
  /** Pushes, and pulls, at the same time. */
  readonly pushes: number
  readonly pulls: number
  /** How long a pull waits while no request matches; 0 for ever. */
  readonly pullIdleMs: number
  /** How long a push may take for its header. */
  readonly headerWaitMs: number
  /** Requests that wait for their turn in one pull. */
  readonly waitingRequests: number
  /**
   * How long a request waits for a producer whose connection is lost; 0 when nobody can continue a request.
   */
  readonly resumeGraceMs: number
}

export const defaultBrokerLimits: BrokerLimits = {
  pushes: 10_000,
  pulls: 20_000,
  pullIdleMs: 3_600_000,
  headerWaitMs: 30_000,
  waitingRequests: 32,
  resumeGraceMs: 5000,
}

/** Who makes a call. */
export interface Caller {
  readonly metadata: Metadata
  /** For lists and logs. */
  readonly peer: string
}

/** Who makes a push. */
export interface Pusher extends Caller {
  /** Sends the initial metadata of the answer; only once. */
  sendHeaders(metadata: Metadata): void
}
