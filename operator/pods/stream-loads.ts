import type { X509Certificate } from 'node:crypto'
import { create, fromBinary, toBinary } from '@bufbuild/protobuf'
import { type Clock, systemClock } from '@tollway/chassis/clock.ts'
import { RateLimiter } from '@tollway/chassis/limits/rate-limiter.ts'
import { checkSubjectAltName } from '@tollway/chassis/net/tls.ts'
import type { AnyMethod, Call, Codec } from '@tollway/grpc/server.ts'
import { GrpcError } from '@tollway/grpc/status.ts'
import { StreamReportEndSchema, StreamReportSchema } from '@tollway/proto/tollway/operator/v1/stream_reports'

export const loadReportPath = '/tollway.operator.v1.StreamReports/Report'

/** The load of one process, or of all processes. */
export interface RouteLoad {
  /** The number of requests whose producer is connected. */
  readonly activeStreams: number
  readonly consumers: number
}

interface LoadReport {
  /** The uid of the process, as in node.metadata of the feed. */
  readonly uid: string
  /**
   * The loads by the `namespace/name` of the route; an empty name is for requests that no route matches.
   * Empty for a process that has ended.
   */
  readonly routes: ReadonlyMap<string, RouteLoad>
}

/** The codec of the receiver of reports. */
const loadCodec: Codec<LoadReport, void> = {
  decode(bytes) {
    const { uid, routes } = fromBinary(StreamReportSchema, bytes)
    return {
      uid,
      routes: new Map(
        routes.map(({ route, activeStreams, consumers }) => [route, { activeStreams, consumers }]),
      ),
    }
  },
  encode: () => toBinary(StreamReportEndSchema, create(StreamReportEndSchema)),
}

/** The codec of the sender of reports. */
export const loadReporterCodec: Codec<void, LoadReport> = {
  encode: ({ uid, routes }) =>
    toBinary(
      StreamReportSchema,
      create(StreamReportSchema, {
        uid,
        routes: Array.from(routes, ([route, load]) => ({ route, ...load })),
      }),
    ),
  decode: () => undefined,
}

/**
 * The load of brokers, which they report to the feed's port or other operators pass on. A report counts until
 * its stream ends.
 */
export interface StreamLoads {
  /** The methods for the server of the feed. */
  readonly methods: readonly AnyMethod[]
  /** Returns the sum of the loads of a route at these processes. */
  of(route: string, uids: readonly string[]): RouteLoad
  /** Returns the reports of processes to this operator, by uid, to pass them on. */
  heardHere(): ReadonlyMap<string, HeardLoad>
  /** Calls the listener after changes, at most once in `paceMs`. */
  onChange(listener: () => void): void
  /** Ends the calls of listeners. */
  stop(): void
}

interface HeardLoad {
  readonly routes: ReadonlyMap<string, RouteLoad>
  /** The load. Each report has a new object. */
  readonly revision: number
}

interface StreamLoadsOptions {
  /**
   * The DNS name that only operators have in their certificates. Without it no caller counts as an
   * operator, and a stream reports one process only.
   */
  readonly operatorName?: string
  readonly limits?: Partial<StreamLoadsLimits>
  readonly clock?: Pick<Clock, 'monotonicMs'>
}

export interface StreamLoadsLimits {
  /** The maximum of streams of processes and operators. One more is answered by RESOURCE_EXHAUSTED. */
  readonly maxStreams: number
  /** The maximum of processes that one operator reports. */
  readonly maxProcesses: number
  /** The maximum of routes in the report of one process. */
  readonly maxRoutes: number
  /** The time between two calls of the listeners. */
  readonly paceMs: number
}

const defaultStreamLoadsLimits: StreamLoadsLimits = {
  maxStreams: 1000,
  maxProcesses: 1000,
  maxRoutes: 10_000,
  paceMs: 2_000,
}

/** One stream, and its report of each process. */
interface Reporter {
  readonly isOperator: boolean
  readonly loads: Map<string, HeardLoad>
}

const maxUidChars = 253
const noLoad: RouteLoad = { activeStreams: 0, consumers: 0 }

export function createStreamLoads({
  operatorName,
  limits,
  clock = systemClock,
}: StreamLoadsOptions = {}): StreamLoads {
  const { maxStreams, maxProcesses, maxRoutes, paceMs } = { ...defaultStreamLoadsLimits, ...limits }
  const reporters = new Set<Reporter>()
  const listeners: (() => void)[] = []
  const rounds = new RateLimiter({ perSecond: 1_000 / paceMs, burst: 1 }, clock)
  let nextRound: NodeJS.Timeout | undefined
  let isStopped = false
  let revisions = 0

  /** Calls the listeners, at once or with later changes together. */
  function notify(): void {
    if (isStopped || nextRound !== undefined) return
    const waitMs = rounds.reserve()
    if (waitMs > 0) nextRound = setTimeout(callListeners, waitMs).unref()
    else callListeners()
  }

  function callListeners(): void {
    nextRound = undefined
    for (const listener of listeners) listener()
  }

  /** The latest report counts: two operators report a process for a while after it moves between them. */
  function newest(uid: string): HeardLoad | undefined {
    let best: HeardLoad | undefined
    for (const { loads } of reporters) {
      const load = loads.get(uid)
      if (load !== undefined && (best === undefined || load.revision > best.revision)) best = load
    }
    return best
  }

  async function report(requests: AsyncIterable<LoadReport>, call: Call): Promise<void> {
    if (reporters.size >= maxStreams) {
      throw new GrpcError('RESOURCE_EXHAUSTED', `${maxStreams} streams report already`)
    }
    const reporter = { isOperator: isOperator(call.peerCertificate, operatorName), loads: new Map() }
    reporters.add(reporter)
    try {
      for await (const load of requests) take(reporter, load)
    } finally {
      reporters.delete(reporter)
      notify()
    }
  }

  function take({ isOperator, loads }: Reporter, { uid, routes }: LoadReport): void {
    if (uid === '' || uid.length > maxUidChars) {
      throw new GrpcError('INVALID_ARGUMENT', `uid: must have 1 to ${maxUidChars} characters`)
    }
    const most = isOperator ? maxProcesses : 1
    if (!loads.has(uid) && loads.size >= most) {
      const allowed = isOperator
        ? `an operator reports at most ${most} processes`
        : 'a process reports only itself'
      throw new GrpcError('INVALID_ARGUMENT', `uid: ${allowed}`)
    }
    if (routes.size > maxRoutes) {
      throw new GrpcError('INVALID_ARGUMENT', `routes: ${routes.size}; at most ${maxRoutes} are allowed`)
    }
    revisions += 1
    if (routes.size === 0) loads.delete(uid)
    else loads.set(uid, { routes, revision: revisions })
    notify()
  }

  return {
    methods: [{ kind: 'client-stream', path: loadReportPath, ...loadCodec, handle: report }],
    of(route, uids) {
      const sum = { activeStreams: 0, consumers: 0 }
      for (const uid of uids) {
        const { activeStreams, consumers } = newest(uid)?.routes.get(route) ?? noLoad
        sum.activeStreams += activeStreams
        sum.consumers += consumers
      }
      return sum
    },
    heardHere() {
      const own = [...reporters].filter(reporter => !reporter.isOperator).flatMap(({ loads }) => [...loads])
      return new Map(own.sort(([, a], [, b]) => a.revision - b.revision))
    },
    onChange: listener => void listeners.push(listener),
    stop() {
      isStopped = true
      clearTimeout(nextRound)
    },
  }
}

function isOperator(certificate: X509Certificate | undefined, operatorName: string | undefined): boolean {
  if (certificate === undefined || operatorName === undefined) return false
  return checkSubjectAltName(certificate, operatorName) === undefined
}
