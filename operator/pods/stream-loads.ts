import { create, fromBinary, toBinary } from '@bufbuild/protobuf'
import { type Clock, systemClock } from '@tollway/chassis/clock.ts'
import { RateLimiter } from '@tollway/chassis/limits/rate-limiter.ts'
import { checkSubjectAltName } from '@tollway/chassis/net/tls.ts'
import type { AnyMethod, Call, Codec } from '@tollway/grpc/server.ts'
import { GrpcError } from '@tollway/grpc/status.ts'
import { StreamReportEndSchema, StreamReportSchema } from '@tollway/proto/tollway/operator/v1/stream_reports'

export const loadReportPath = '/tollway.operator.v1.StreamReports/Report'

export interface RouteLoad {
  /** The number of requests whose producer is connected. */
  readonly activeStreams: number
  readonly consumers: number
}

export interface LoadReport {
  /** The uid of the process, as in node.metadata of the feed. */
  readonly uid: string
  /**
   * The loads by the `namespace/name` of the route; requests that no route matches have an empty name. An
   * ended process has no entries.
   */
  readonly routes: ReadonlyMap<string, RouteLoad>
}

export function decodeLoad(bytes: Uint8Array): LoadReport {
  const { uid, routes } = fromBinary(StreamReportSchema, bytes)
  return {
    uid,
    routes: new Map(
      routes.map(({ route, activeStreams, consumers }) => [route, { activeStreams, consumers }]),
    ),
  }
}

export function encodeLoad({ uid, routes }: LoadReport): Uint8Array {
  const message = { uid, routes: Array.from(routes, ([route, load]) => ({ route, ...load })) }
  return toBinary(StreamReportSchema, create(StreamReportSchema, message))
}

/** Returns the encoded answer to a stream of reports that has ended. */
export const encodeLoadEnd = () => toBinary(StreamReportEndSchema, create(StreamReportEndSchema))

interface ReceivedLoad {
  readonly routes: ReadonlyMap<string, RouteLoad>
  /** Grows with each report of any process. */
  readonly revision: number
}

interface StreamLoadsOptions {
  /** The DNS name that only operators have in their certificates; undefined if there is one operator. */
  readonly operatorName?: string
  readonly limits?: Partial<StreamLoadsLimits>
  readonly clock?: Pick<Clock, 'monotonicMs'>
}

interface StreamLoadsLimits {
  /** The maximum number of streams. One more is answered by RESOURCE_EXHAUSTED. */
  readonly maxStreams: number
  /**
   * The maximum number of processes that one operator reports. One more ends the stream with
   * INVALID_ARGUMENT.
   */
  readonly maxProcesses: number
  /**
   * The maximum number of routes in the report of one process. One more ends the stream with
   * INVALID_ARGUMENT.
   */
  readonly maxRoutes: number
  /** The minimum time between two calls of the listeners, in milliseconds. */
  readonly paceMs: number
}

const defaultStreamLoadsLimits: StreamLoadsLimits = {
  maxStreams: 1000,
  maxProcesses: 1000,
  maxRoutes: 10_000,
  paceMs: 2_000,
}

/** One stream of reports, with the latest load of each process that it reports. */
interface Reporter {
  readonly isOperator: boolean
  readonly loads: Map<string, ReceivedLoad>
}

const maxUidChars = 253
const noLoad: RouteLoad = { activeStreams: 0, consumers: 0 }

/**
 * The loads of brokers. Brokers report them at the port of the feed, or other operators pass them on. A
 * report counts until its stream ends.
 */
export class StreamLoads {
  readonly methods: readonly AnyMethod[]
  readonly #limits: StreamLoadsLimits
  readonly #reporters = new Set<Reporter>()
  readonly #listeners: (() => void)[] = []
  readonly #rounds: RateLimiter
  #nextRound: NodeJS.Timeout | undefined
  #isStopped = false
  #revisions = 0

  constructor({ operatorName, limits, clock = systemClock }: StreamLoadsOptions = {}) {
    this.#limits = { ...defaultStreamLoadsLimits, ...limits }
    this.#rounds = new RateLimiter({ perSecond: 1_000 / this.#limits.paceMs, burst: 1 }, clock)
    const codec: Codec<LoadReport, void> = { decode: decodeLoad, encode: encodeLoadEnd }
    const handle = (reports: AsyncIterable<LoadReport>, call: Call) => {
      if (!isOperator(call, operatorName)) return this.receive(reports, 'process')
      throw new GrpcError('FAILED_PRECONDITION', 'an operator reports loads by LeaderService')
    }
    this.methods = [{ kind: 'client-stream', path: loadReportPath, ...codec, handle }]
  }

  /**
   * Counts the reports of one stream until it ends.
   *
   * @throws GrpcError RESOURCE_EXHAUSTED, or INVALID_ARGUMENT for a report that is not allowed
   */
  async receive(reports: AsyncIterable<LoadReport>, from: 'process' | 'operator'): Promise<void> {
    const { maxStreams } = this.#limits
    if (this.#reporters.size >= maxStreams) {
      throw new GrpcError('RESOURCE_EXHAUSTED', `${maxStreams} streams report already`)
    }
    const reporter: Reporter = { isOperator: from === 'operator', loads: new Map() }
    this.#reporters.add(reporter)
    try {
      for await (const report of reports) this.#take(reporter, report)
    } finally {
      this.#reporters.delete(reporter)
      this.#notify()
    }
  }

  sum(route: string, uids: readonly string[]): RouteLoad {
    const sum = { activeStreams: 0, consumers: 0 }
    for (const uid of uids) {
      const { activeStreams, consumers } = this.#newest(uid)?.routes.get(route) ?? noLoad
      sum.activeStreams += activeStreams
      sum.consumers += consumers
    }
    return sum
  }

  /**
   * Returns the loads that processes have reported to this operator itself, by uid, to pass them on to the
   * leader.
   */
  own(): ReadonlyMap<string, ReceivedLoad> {
    const processes = [...this.#reporters].filter(({ isOperator }) => !isOperator)
    const loads = processes.flatMap(reporter => [...reporter.loads])
    return new Map(loads.sort(([, a], [, b]) => a.revision - b.revision))
  }

  /** Calls the listener after changes, at most once in `paceMs`. */
  onChange(listener: () => void): void {
    this.#listeners.push(listener)
  }

  stop(): void {
    this.#isStopped = true
    clearTimeout(this.#nextRound)
  }

  #take({ isOperator, loads }: Reporter, { uid, routes }: LoadReport): void {
    const { maxProcesses, maxRoutes } = this.#limits
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
    this.#revisions += 1
    if (routes.size === 0) loads.delete(uid)
    else loads.set(uid, { routes, revision: this.#revisions })
    this.#notify()
  }

  /**
   * Returns the latest report of a process: after it moves to another operator, both operators report it
   * until the old stream ends.
   */
  #newest(uid: string): ReceivedLoad | undefined {
    let newest: ReceivedLoad | undefined
    for (const { loads } of this.#reporters) {
      const load = loads.get(uid)
      if (load !== undefined && (newest === undefined || load.revision > newest.revision)) newest = load
    }
    return newest
  }

  /** Calls the listeners, at once or after `paceMs` together with later changes. */
  #notify(): void {
    if (this.#isStopped || this.#nextRound !== undefined) return
    const waitMs = this.#rounds.reserve()
    if (waitMs > 0) this.#nextRound = setTimeout(() => this.#callListeners(), waitMs).unref()
    else this.#callListeners()
  }

  #callListeners(): void {
    this.#nextRound = undefined
    for (const listener of this.#listeners) listener()
  }
}

/**
 * Returns whether the caller has a certificate of operators. Certificates of pods, which the same authority
 * issues, lack `operatorName`.
 */
function isOperator({ peerCertificate }: Call, operatorName: string | undefined): boolean {
  if (peerCertificate === undefined || operatorName === undefined) return false
  return checkSubjectAltName(peerCertificate, operatorName) === undefined
}
