import type { MessageSink } from '@tollway/grpc/server.ts'
import { GrpcError } from '@tollway/grpc/status.ts'
import type { Route } from '../routes/route.ts'
import type { LoggedRequest } from '../stream-log/stream-log.ts'
import type { AnimationIds } from '../wire/animation-ids.ts'
import { admits, findRejection, hashToken } from './admission.ts'
import { Delivery, describeRequest, describeSkipped, PullNotices, tooManyConsumers } from './delivery.ts'
import { DeliveryOrder } from './delivery-order.ts'
import { findBeginning, parseReceivedCounts, type ReceivedCounts, receivedMetadata } from './late-join.ts'
import { PullSinkMonitor } from './pull-sink-monitor.ts'
import { findRoute, type PullCaller, type StreamContext } from './stream-context.ts'

export type PullSink = Pick<MessageSink, 'write' | 'onReady' | 'queuedBytes' | 'discard' | 'flush'>

interface PullOptions {
  readonly wanted: AnimationIds
  readonly caller: PullCaller
  readonly sink: PullSink
}

/** The most by which the clocks of two brokers are expected to differ. */
const clockSkewMs = 1_000
/**
 * A run that the log does not report within this time counts as not kept: brokers report requests within
 * milliseconds.
 */
const resumeWaitMs = 1_000

/**
 * One consumer's call: it serves the matching requests one after the other.
 *
 * It ignores a request whose route does not accept the caller's token: otherwise a producer that uses another
 * producer's stream id could end that stream's pulls.
 */
export class Pull {
  readonly wanted: AnimationIds
  readonly peer: string
  readonly #context: StreamContext
  readonly #sink: PullSink
  readonly #token: ReturnType<typeof hashToken>
  readonly #sinkMonitor: PullSinkMonitor
  readonly #order: DeliveryOrder
  readonly #notices = new PullNotices()
  readonly #done = Promise.withResolvers<void>()
  /** The runs to resume; undefined without the metadata `tollway-received`. */
  readonly #received: ReceivedCounts | undefined
  /** Runs to resume that the log has not reported yet. */
  readonly #missing: Set<string>
  readonly #pulledMs: number
  readonly #beganMs: number
  #idleSinceMs: number
  /** The route of the current or last delivery. */
  #route: Route | undefined
  #writable = true
  #pumping = false
  #draining = false
  #over = false
  #stopWatching = () => {}

  /** @throws GrpcError INVALID_ARGUMENT for three empty ids, and for invalid metadata */
  constructor(context: StreamContext, { wanted, caller, sink }: PullOptions) {
    if (wanted.streamId === '' && wanted.requestId === '' && wanted.targetObjectId === '') {
      throw new GrpcError('INVALID_ARGUMENT', 'AnimationIds: all three are empty, at least one is needed')
    }
    this.wanted = wanted
    this.peer = caller.peer
    this.#context = context
    this.#sink = sink
    this.#received = parseReceived(caller)
    this.#missing = new Set(this.#received?.keys())
    this.#token = hashToken(caller.metadata)
    // Nothing else handles a rejection if the consumer has disconnected.
    this.#done.promise.catch(() => {})
    this.#pulledMs = context.clock.nowMs()
    this.#sinkMonitor = new PullSinkMonitor(sink, context.log.budget)
    this.#order = new DeliveryOrder(context.limits.maxWaitingRequests)
    this.#beganMs = context.clock.monotonicMs()
    this.#idleSinceMs = this.#beganMs
    sink.onReady(() => {
      this.#writable = true
      this.#pump()
    })
    this.#watch()
  }

  /**
   * Resolves when a pull for one request has delivered it and the consumer has read all; rejects with a
   * `GrpcError`.
   */
  get done(): Promise<void> {
    return this.#done.promise
  }

  /** Whether the pull serves no more requests; the consumer may still read the last messages. */
  get ending(): boolean {
    return this.#over
  }

  /** The request that is served. */
  get request(): LoggedRequest | undefined {
    return this.#order.first?.request
  }

  /** What was not sent of the served request; the bytes include bytes that were sent but not read. */
  get behind(): { readonly entries: number; readonly bytes: number } {
    const { entries, bytes } = this.#order.first?.behind ?? { entries: 0, bytes: 0 }
    return { entries, bytes: bytes + this.#sink.queuedBytes }
  }

  sweep(): void {
    const nowMs = this.#context.clock.monotonicMs()
    this.#abortOnError(() => {
      this.#assertNotStalled(nowMs)
      this.#order.first?.sweep()
      if (!this.#over) this.#reportMissing(nowMs)
    })
    const { pullIdleMs } = this.#context.limits
    if (this.#over || this.#order.first !== undefined || pullIdleMs === 0) return
    if (nowMs - this.#idleSinceMs <= pullIdleMs) return
    this.#end(new GrpcError('DEADLINE_EXCEEDED', `no request matched for ${pullIdleMs / 1000} s`))
  }

  /** To be called when the routes have changed: ends the pull if they no longer accept the consumer. */
  recheck(): void {
    for (const { request } of this.#order.all) {
      const route = findRoute(this.#context, request)
      const rejection = findRejection(route, 'pull', this.#token)
      if (rejection === undefined) continue
      this.#abort(rejection)
      return
    }
  }

  /** Ends the pull as soon as no request is served or queued. */
  drain(): void {
    this.#draining = true
    this.#endIfDrained()
  }

  /** Ends the pull at once, even if the consumer does not read queued messages. */
  close(reason: GrpcError): void {
    if (!this.#over) this.#abort(reason)
  }

  #end(reason?: Error): void {
    if (this.#over) return
    this.#over = true
    this.#stopWatching()
    for (const delivery of this.#order.clear()) delivery.close(reason?.message)
    if (this.#sink.queuedBytes === 0) this.#settle(reason)
    else void this.#sink.flush().then(() => this.#settle(reason))
  }

  #settle(reason?: Error): void {
    this.#sinkMonitor.close()
    if (reason === undefined) this.#done.resolve()
    else this.#done.reject(reason)
  }

  /** Rejects at once, even if the consumer does not read queued messages. */
  #abort(reason: Error): void {
    this.#sink.discard()
    this.#end(reason)
    this.#settle(reason)
  }

  /** Does work that may run within the call of a producer, which must not fail: an error ends the pull. */
  #abortOnError(work: () => void): void {
    try {
      work()
    } catch (error) {
      this.#abort(error as Error)
    }
  }

  #onRequest(request: LoggedRequest, late: boolean): void {
    if (this.#over) return
    const route = findRoute(this.#context, request)
    if (!admits(route, 'pull', this.#token)) return
    const beginning = findBeginning(request, route, { received: this.#received ?? nothingReceived, late })
    if (beginning === undefined) return
    this.#missing.delete(request.key)
    const isServed = this.#order.first === undefined
    if (!reserveConsumer(this.#context, request, { route, isServed })) {
      this.#reportFull(request, route)
      return
    }
    const delivery = new Delivery(this.#context, {
      request,
      route,
      beginning,
      pulledMs: this.#pulledMs,
      isServed,
      namesRun: this.#received !== undefined,
      notices: this.#notices,
      onReadable: () => this.#pump(),
      onUnreadable: error => this.#dropUnreadable(delivery, error),
    })
    this.#add(delivery)
    this.#pump()
  }

  /**
   * Reports that the request has as many consumers as its route allows. Ends the pull, unless it serves
   * another request.
   */
  #reportFull(request: LoggedRequest, route: Route): void {
    const message = tooManyConsumers(describeRequest(request.ids, this.wanted), route)
    if (this.#order.first === undefined) this.#end(new GrpcError('RESOURCE_EXHAUSTED', message))
    else this.#notices.add(describeSkipped(message))
  }

  #add(delivery: Delivery): void {
    const { superseded, dropped } = this.#order.add(delivery, delivery.route.concurrentRequests)
    const { counters } = this.#context.stats.route(delivery.route.name)
    for (const { request } of dropped) {
      const message = `dropped: the request ${describeRequest(request.ids, this.wanted)}, which waited for its turn`
      if (superseded === undefined) this.#notices.add(message)
    }
    for (const other of dropped) other.close('another request took its place')
    counters.requests_dropped += dropped.length
    if (superseded !== undefined) {
      counters.requests_superseded += 1
      const message = `superseded by the request ${describeRequest(delivery.request.ids, this.wanted)}`
      const { end } = superseded.request
      // The newer request may be known before the last messages of an older one that failed.
      const failed = end !== undefined && end.how !== 'completed'
      superseded.stop(failed ? end.status : { code: 'WARNING', message })
    }
    this.#beginFirst()
  }

  /**
   * Drops a request that cannot be read. If no message of it is kept any more, it never began; any other
   * error ends the pull.
   */
  #dropUnreadable(delivery: Delivery, error: GrpcError | undefined): void {
    if (error !== undefined) {
      this.#end(error)
      return
    }
    if (this.#received?.has(delivery.request.key) === true) this.#missing.add(delivery.request.key)
    delivery.close('not kept any more')
    this.#order.remove(delivery)
    this.#beginFirst()
    this.#endIfDrained()
    this.#pump()
  }

  #pump(): void {
    if (this.#pumping) return
    this.#pumping = true
    this.#abortOnError(() => {
      let { first } = this.#order
      while (this.#writable && !this.#over && first !== undefined && this.#sendNext(first)) {
        first = this.#order.first
      }
    })
    this.#pumping = false
  }

  /**
   * Begins the first delivery, and reports the deliveries before it, whose requests have too many consumers.
   */
  #beginFirst(): void {
    const reasons = this.#order
      .beginFirst()
      .map(({ request, route }) => tooManyConsumers(describeRequest(request.ids, this.wanted), route))
    for (const reason of reasons) this.#notices.add(describeSkipped(reason))
    const { first } = this.#order
    const [reason] = reasons
    if (first !== undefined) this.#route = first.route
    else if (reason !== undefined && this.wanted.requestId !== '') {
      this.#end(new GrpcError('RESOURCE_EXHAUSTED', reason))
    }
  }

  /** Returns false if there is nothing to do yet. */
  #sendNext(delivery: Delivery): boolean {
    const bytes = delivery.next()
    if (bytes !== undefined) this.#writable = this.#sink.write(bytes)
    if (delivery.over) this.#finish(delivery)
    else if (bytes === undefined) return false
    return true
  }

  #finish(delivery: Delivery): void {
    delivery.close()
    this.#order.remove(delivery)
    this.#idleSinceMs = this.#context.clock.monotonicMs()
    this.#beginFirst()
    if (this.#order.first === undefined && this.wanted.requestId !== '') this.#end()
    this.#endIfDrained()
  }

  #endIfDrained(): void {
    if (this.#draining && this.#order.first === undefined) this.#end(shutdownError())
  }

  /**
   * Cuts off a consumer that has read nothing for `idleSeconds`, if the producer waits for it or the request
   * has ended.
   */
  #assertNotStalled(nowMs: number): void {
    const stalledMs = this.#sinkMonitor.measure(nowMs)
    if (this.#route === undefined || stalledMs <= this.#route.limits.idleSeconds * 1000) return
    const running = this.#order.first?.request.ended === false
    if (running && this.#route.slowConsumers !== 'wait') return
    this.#context.stats.route(this.#route.name).counters.consumers_cut_off += 1
    const why = running ? 'others wait' : 'the request has ended'
    const message = `too slow: nothing was taken for ${this.#route.limits.idleSeconds} s, and ${why}`
    throw new GrpcError('RESOURCE_EXHAUSTED', message)
  }

  /**
   * Reports a run that the log does not have: it is too old, or was lost with a broker. Ends the pull unless
   * it serves another request.
   */
  #reportMissing(nowMs: number): void {
    if (this.#missing.size === 0 || !this.#context.log.healthy || nowMs - this.#beganMs < resumeWaitMs) return
    const [run] = this.#missing
    this.#missing.clear()
    const message = `the run ${JSON.stringify(run)} is not kept any more`
    if (this.#order.first === undefined) throw new GrpcError('NOT_FOUND', message)
    this.#notices.add(message)
  }

  #watch(): void {
    let late = true
    const stop = this.#context.log.watch(this.wanted, request =>
      this.#onRequest(request, late || request.openedMs < this.#pulledMs - clockSkewMs),
    )
    late = false
    if (this.#over) stop()
    else this.#stopWatching = stop
  }
}

/** Returns whether the request may have another consumer. Counts a queued delivery only when it begins. */
function reserveConsumer(
  { consumersOfRequest }: StreamContext,
  { key }: LoggedRequest,
  { route, isServed }: { readonly route: Route; readonly isServed: boolean },
): boolean {
  const { consumers } = route.limits
  return isServed ? consumersOfRequest.take(key, consumers) : consumersOfRequest.count(key) < consumers
}

/** The error of calls that begin or run during a shutdown. */
export const shutdownError = () => new GrpcError('UNAVAILABLE', 'the broker is shutting down')

const nothingReceived: ReceivedCounts = new Map()

function parseReceived({ metadata }: PullCaller): ReceivedCounts | undefined {
  try {
    return parseReceivedCounts(metadata.get(receivedMetadata) ?? [])
  } catch (error) {
    throw new GrpcError('INVALID_ARGUMENT', (error as Error).message)
  }
}
