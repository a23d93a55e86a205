import type { MessageSink } from '@tollway/grpc/server.ts'
import { GrpcError } from '@tollway/grpc/status.ts'
import type { LoggedRequest } from '../log/stream-log.ts'
import type { Route } from '../routes/route.ts'
import type { AnimationIds } from '../wire/animation-ids.ts'
import type { Status } from '../wire/status.ts'
import { admits, hashToken, refusal } from './admission.ts'
import { Delivery } from './delivery.ts'
import { findBeginning, type Received, readReceived, receivedMetadata } from './late-join.ts'
import { createOutlet } from './outlet.ts'
import { pluralize } from './pluralize.ts'
import { type Caller, routeOf, type StreamContext } from './stream-context.ts'
import { Turns } from './turns.ts'

/** One consumer's call: the matching requests, one after the other. */
export interface Pull {
  /** Checks the time limits. */
  sweep(): void
  /** The routes have changed, and may no longer accept the consumer. */
  recheck(): void
  /** Ends as soon as no request is served or queued. */
  drain(): void
  /** The consumer is disconnected, or must be cut off. */
  cut(reason: GrpcError): void
  /**
   * Resolves at the end of a pull's only request, when the consumer has read its last message; rejects with a
   * `GrpcError`.
   */
  readonly done: Promise<void>
  /** No request is served any more; only the last messages wait for the consumer. */
  readonly ending: boolean
  readonly wanted: AnimationIds
  /** The request that is served. */
  readonly request: LoggedRequest | undefined
  /** The messages of the served request that were not sent, and the bytes that the consumer has not read. */
  readonly behind: { readonly entries: number; readonly bytes: number }
  readonly peer: string
}

export type PullSink = Pick<MessageSink, 'write' | 'onReady' | 'queuedBytes' | 'discard' | 'flush'>

export interface PullOptions {
  readonly wanted: AnimationIds
  readonly caller: Caller
  readonly sink: PullSink
}

/** The maximum clock difference to another process, whose requests may be reported late. */
const clockSkewMs = 1_000
/**
 * A run that the log does not report within this time is gone. Brokers report requests within milliseconds.
 */
const resumeWaitMs = 1_000

/**
 * The pull ignores a request whose route does not accept the caller's token: otherwise a producer that uses
 * another's stream id could end that stream's pulls.
 *
 * @throws GrpcError INVALID_ARGUMENT for three empty ids, and for invalid metadata
 */
export function createPull(context: StreamContext, { wanted, caller, sink }: PullOptions): Pull {
  if (wanted.streamId === '' && wanted.requestId === '' && wanted.targetObjectId === '') {
    throw new GrpcError('INVALID_ARGUMENT', 'AnimationIds: all three are empty, at least one is needed')
  }
  const received = receivedOf(caller)
  /** The runs to resume that the log has not reported yet. */
  const missing = new Set(received?.keys())
  const { clock, limits } = context
  const token = hashToken(caller.metadata)
  const done = Promise.withResolvers<void>()
  // The rejection of a call without a consumer has no other handler.
  done.promise.catch(() => {})
  const pulledMs = clock.nowMs()
  const outlet = createOutlet(sink, context.log.budget)
  const turns = new Turns(limits.waitingRequests)
  const beganMs = clock.monotonicMs()
  let idleSinceMs = beganMs
  /** The route of the current or last delivery. */
  let route: Route | undefined
  /** Notices that came too late for the last delivery. */
  let notices: readonly Status[] = []
  let writable = true
  let pumping = false
  let draining = false
  let over = false
  let stopWatching = () => {}

  function end(reason?: Error): void {
    if (over) return
    over = true
    stopWatching()
    for (const delivery of turns.clear()) delivery.close(reason?.message)
    if (sink.queuedBytes === 0) settle(reason)
    else void sink.flush().then(() => settle(reason))
  }

  function settle(reason?: Error): void {
    outlet.close()
    if (reason === undefined) done.resolve()
    else done.reject(reason)
  }

  /** Reports the reason at once, even if the consumer does not read queued messages. */
  function breakOff(reason: Error): void {
    sink.discard()
    end(reason)
    settle(reason)
  }

  /** Work may run in the call of a producer, which must not fail because of this consumer's call. */
  function orBreakOff(work: () => void): void {
    try {
      work()
    } catch (error) {
      breakOff(error as Error)
    }
  }

  function arrive(request: LoggedRequest, late: boolean): void {
    if (over) return
    const ofRequest = routeOf(context, request)
    if (!admits(ofRequest, 'pull', token)) return
    const beginning = findBeginning(request, ofRequest, { received: received ?? nothingReceived, late })
    if (beginning === undefined) return
    missing.delete(request.key)
    const hasTurn = turns.first === undefined
    if (!hasPlace(context, request, { route: ofRequest, hasTurn })) {
      leaveOut(request, ofRequest)
      return
    }
    const delivery = new Delivery(context, {
      ...{ request, route: ofRequest, beginning, pulledMs, hasTurn },
      namesRun: received !== undefined,
      onNews: () => pump(),
      onUnreadable: error => giveUp(delivery, error),
    })
    add(delivery)
    pump()
  }

  /** A pull that serves a request continues without this one. */
  function leaveOut(request: LoggedRequest, ofRequest: Route): void {
    const message = tooManyConsumers(nameOf(request.ids, wanted), ofRequest)
    if (turns.first === undefined) end(new GrpcError('RESOURCE_EXHAUSTED', message))
    else turns.first.notify(leftOut(message))
  }

  function add(delivery: Delivery): void {
    const { superseded, dropped } = turns.add(delivery, delivery.route.concurrentRequests)
    const { counters } = context.stats.route(delivery.route.name)
    for (const { request } of dropped) {
      const message = `dropped: the request ${nameOf(request.ids, wanted)}, which waited for its turn`
      if (superseded === undefined) turns.first?.notify({ code: 'WARNING', message })
    }
    for (const other of dropped) other.close('another request took its place')
    counters.requests_dropped += dropped.length
    if (superseded !== undefined) {
      counters.requests_superseded += 1
      const message = `superseded by the request ${nameOf(delivery.request.ids, wanted)}`
      superseded.stop({ code: 'WARNING', message })
    }
    beginFirst()
  }

  /** Treats a request that is not kept any more as if it had never begun. */
  function giveUp(delivery: Delivery, error: GrpcError | undefined): void {
    if (error !== undefined) {
      end(error)
      return
    }
    if (received?.has(delivery.request.key) === true) missing.add(delivery.request.key)
    delivery.close('not kept any more')
    turns.remove(delivery)
    beginFirst()
    pump()
  }

  function pump(): void {
    if (pumping) return
    pumping = true
    orBreakOff(() => {
      while (writable && !over && turns.first !== undefined && sendNext(turns.first));
    })
    pumping = false
  }

  /** Deliveries whose request has too many consumers are left out, which the next delivery reports. */
  function beginFirst(): void {
    const reasons = turns
      .beginFirst()
      .map(({ request, route }) => tooManyConsumers(nameOf(request.ids, wanted), route))
    notices = [...notices, ...reasons.map(reason => leftOut(reason))]
    const { first } = turns
    const [reason] = reasons
    if (first !== undefined) {
      route = first.route
      for (const notice of notices) first.notify(notice)
      notices = []
    } else if (reason !== undefined && wanted.requestId !== '') {
      end(new GrpcError('RESOURCE_EXHAUSTED', reason))
    }
  }

  /** Returns false if there is no message to send. */
  function sendNext(delivery: Delivery): boolean {
    const bytes = delivery.next()
    if (bytes !== undefined) writable = sink.write(bytes)
    if (delivery.over) finish(delivery)
    else if (bytes === undefined) return false
    return true
  }

  function finish(delivery: Delivery): void {
    delivery.close()
    notices = delivery.takeNotices()
    turns.remove(delivery)
    idleSinceMs = clock.monotonicMs()
    beginFirst()
    if (turns.first !== undefined) return
    if (wanted.requestId !== '') end()
    else if (draining) end(shuttingDown())
  }

  /**
   * A consumer that does not read for `idleSeconds` must not block others, or an ended request, which has no
   * producer to end the wait.
   */
  function assertNotStalled(nowMs: number): void {
    const stalledMs = outlet.measure(nowMs)
    if (route === undefined || stalledMs <= route.limits.idleSeconds * 1000) return
    const running = turns.first?.request.ended === false
    if (running && route.slowConsumers !== 'wait') return
    context.stats.route(route.name).counters.consumers_cut_off += 1
    const why = running ? 'others wait' : 'the request has ended'
    const message = `too slow: nothing was taken for ${route.limits.idleSeconds} s, and ${why}`
    throw new GrpcError('RESOURCE_EXHAUSTED', message)
  }

  /** A run to resume may be gone, because of its age or a lost broker; this must not be silent. */
  function reportMissing(nowMs: number): void {
    if (missing.size === 0 || !context.log.healthy || nowMs - beganMs < resumeWaitMs) return
    const [run] = missing
    missing.clear()
    const message = `the run ${JSON.stringify(run)} is not kept any more`
    if (turns.first === undefined) throw new GrpcError('NOT_FOUND', message)
    turns.first.notify({ code: 'WARNING', message })
  }

  function watch(): void {
    let late = true
    const stop = context.log.watch(wanted, request =>
      arrive(request, late || request.openedMs < pulledMs - clockSkewMs),
    )
    late = false
    if (over) stop()
    else stopWatching = stop
  }

  sink.onReady(() => {
    writable = true
    pump()
  })
  watch()
  return {
    sweep() {
      const nowMs = clock.monotonicMs()
      orBreakOff(() => {
        assertNotStalled(nowMs)
        turns.first?.sweep()
        if (!over) reportMissing(nowMs)
      })
      if (over) return
      const idle = turns.first === undefined
      if (!idle || limits.pullIdleMs === 0 || nowMs - idleSinceMs <= limits.pullIdleMs) return
      end(new GrpcError('DEADLINE_EXCEEDED', `no request matched for ${limits.pullIdleMs / 1000} s`))
    },
    recheck() {
      for (const { request } of turns.all) {
        const ofRequest = routeOf(context, request)
        if (!admits(ofRequest, 'pull', token)) return breakOff(refusal(ofRequest, 'pull', token))
      }
    },
    drain() {
      draining = true
      if (turns.first === undefined) end(shuttingDown())
    },
    cut(reason) {
      if (!over) breakOff(reason)
    },
    get ending() {
      return over
    },
    done: done.promise,
    wanted,
    get request() {
      return turns.first?.request
    },
    get behind() {
      const { entries, bytes } = turns.first?.behind ?? { entries: 0, bytes: 0 }
      return { entries, bytes: bytes + sink.queuedBytes }
    },
    peer: caller.peer,
  }
}

const leftOut = (reason: string): Status => ({ code: 'WARNING', message: `left out: ${reason}` })

/** Takes a place of a consumer of the request; a delivery that waits for its turn needs none yet. */
function hasPlace(
  { consumersOfRequest }: StreamContext,
  { key }: LoggedRequest,
  { route, hasTurn }: { readonly route: Route; readonly hasTurn: boolean },
): boolean {
  const { consumers } = route.limits
  return hasTurn ? consumersOfRequest.take(key, consumers) : consumersOfRequest.count(key) < consumers
}

function tooManyConsumers(ids: string, { limits: { consumers } }: Route): string {
  const many = pluralize(consumers, 'consumer, which is', 'consumers, which are')
  return `the request ${ids} has ${many} all that its route allows`
}

/** The request id, with the ids that the pull has not named if it alone could mean several requests. */
function nameOf({ requestId, streamId, targetObjectId }: AnimationIds, wanted: AnimationIds): string {
  const stream = wanted.streamId === '' ? ` of the stream ${JSON.stringify(streamId)}` : ''
  const isNameless = requestId === '' && targetObjectId !== wanted.targetObjectId
  return `${JSON.stringify(requestId)}${stream}${isNameless ? ` for ${JSON.stringify(targetObjectId)}` : ''}`
}

/** The error of a call that begins or runs while the process ends. */
export const shuttingDown = () => new GrpcError('UNAVAILABLE', 'the broker is shutting down')

const nothingReceived: Received = new Map()

function receivedOf({ metadata }: Caller): Received | undefined {
  try {
    return readReceived(metadata.get(receivedMetadata) ?? [])
  } catch (error) {
    throw new GrpcError('INVALID_ARGUMENT', (error as Error).message)
  }
}
