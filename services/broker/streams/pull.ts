import type { MessageSink } from '@tollway/grpc/server.ts'
import { GrpcError } from '@tollway/grpc/status.ts'
import type { LoggedRequest } from '../log/stream-log.ts'
import type { Route } from '../routes/route.ts'
import type { AnimationIds } from '../wire/animation-ids.ts'
import { admits, hashToken, refusal } from './admission.ts'
import { howMany } from './how-many.ts'
import { findBeginning, readReceived, receivedMetadata } from './late-join.ts'
import { Serving } from './serving.ts'
import { createStallWatch } from './stall-watch.ts'
import { type Caller, routeOf, type StreamContext } from './stream-context.ts'
import { takeTurn } from './turns.ts'

/** One consumer's call: the requests that match, one after the other. */
export interface Pull {
  /** Looks at the limits in time. */
  sweep(): void
  /** The routes have changed, and may not admit the consumer any more. */
  recheck(): void
  /** Ends as soon as no request is left that it serves or that waits for its turn. */
  drain(): void
  /** The consumer is gone, or has to go. */
  cut(reason: GrpcError): void
  /** Resolves at the end of the only request that was asked for; rejects with a `GrpcError`. */
  readonly done: Promise<void>
  readonly wanted: AnimationIds
  /** The request that is served. */
  readonly request: LoggedRequest | undefined
  /** Of the request that is served: what waits for this consumer. */
  readonly behind: { readonly entries: number; readonly bytes: number }
  readonly peer: string
}

export type PullSink = Pick<MessageSink, 'write' | 'onReady' | 'queuedBytes' | 'discard'>

export interface PullOptions {
  readonly wanted: AnimationIds
  readonly caller: Caller
  readonly sink: PullSink
}

/** A request of another process may be told late; its clock may differ by so much. */
const clockSkewMs = 1_000

/**
 * A request whose route does not admit the caller's token is not there for this pull: otherwise whoever pushes
 * under somebody's stream id could end that one's pulls.
 *
 * @throws GrpcError INVALID_ARGUMENT for three empty ids, and for metadata that cannot be read
 */
export function createPull(context: StreamContext, { wanted, caller, sink }: PullOptions): Pull {
  if (wanted.streamId === '' && wanted.requestId === '' && wanted.targetObjectId === '') {
    throw new GrpcError('INVALID_ARGUMENT', 'AnimationIds: all three are empty, at least one is needed')
  }
  const received = receivedOf(caller)
  const { clock, limits } = context
  const token = hashToken(caller.metadata)
  const done = Promise.withResolvers<void>()
  // A consumer that is gone waits for nothing.
  done.promise.catch(() => {})
  const pulledMs = clock.nowMs()
  const stall = createStallWatch(sink)
  let idleSinceMs = clock.monotonicMs()
  let current: Serving | undefined
  let waiting: Serving[] = []
  let writable = true
  let pumping = false
  let draining = false
  let over = false
  let stopWatching = () => {}

  function end(reason?: Error): void {
    if (over) return
    over = true
    stopWatching()
    current?.leave(reason?.message)
    for (const serving of waiting) serving.leave(reason?.message)
    waiting = []
    current = undefined
    if (reason === undefined) done.resolve()
    else done.reject(reason)
  }

  /** Tells why at once, although the consumer may not read what waits for it. */
  function breakOff(reason: Error): void {
    if (!over) sink.discard()
    end(reason)
  }

  /** Work may be brought about by a producer, who must not suffer from what this consumer's call meets. */
  function orBreakOff(work: () => void): void {
    try {
      work()
    } catch (error) {
      breakOff(error as Error)
    }
  }

  function arrive(request: LoggedRequest, late: boolean): void {
    if (over) return
    const route = routeOf(context, request)
    if (!admits(route, token)) return
    const beginning = findBeginning(request, route, { wanted, received, late })
    if (beginning === undefined) return
    if (!context.consumersOfRequest.take(request.key, route.limits.consumers)) {
      leaveOut(request, route)
      return
    }
    const serving = new Serving(context, {
      ...{ request, route, beginning, pulledMs },
      onNews: () => pump(),
      onUnreadable: error => giveUp(serving, error),
    })
    queue(serving)
    pump()
  }

  /** A pull that is busy goes on without it. */
  function leaveOut({ ids }: LoggedRequest, { limits: { consumers } }: Route): void {
    const name = JSON.stringify(ids.requestId)
    const many = howMany(consumers, 'consumer, which is', 'consumers, which are')
    const message = `the request ${name} has ${many} all that its route allows`
    if (current === undefined && waiting.length === 0) end(new GrpcError('RESOURCE_EXHAUSTED', message))
    else current?.tell({ code: 'WARNING', message: `left out: ${message}` })
  }

  function queue(serving: Serving): void {
    const { route, request } = serving
    const { counters } = context.stats.route(route.name)
    const { supersedes, drops } = takeTurn(route.concurrentRequests, {
      serving: current !== undefined,
      waiting: waiting.length,
      maxWaiting: limits.waitingRequests,
    })
    for (const dropped of waiting.splice(0, drops)) dropped.leave('another request took its place')
    waiting.push(serving)
    counters.requests_dropped += drops
    if (supersedes) {
      counters.requests_superseded += 1
      const message = `superseded by the request ${JSON.stringify(request.ids.requestId)}`
      current?.stop({ code: 'WARNING', message })
    } else if (drops > 0) {
      const message = `dropped: ${drops} of the requests that waited for their turn`
      current?.tell({ code: 'WARNING', message })
    }
  }

  /** What is not kept any more is as if it had never come. */
  function giveUp(serving: Serving, error: GrpcError | undefined): void {
    if (error !== undefined) {
      end(error)
      return
    }
    serving.leave('not kept any more')
    waiting = waiting.filter(other => other !== serving)
    pump()
  }

  function pump(): void {
    if (pumping) return
    pumping = true
    orBreakOff(() => {
      while (writable && !over && (current !== undefined || beginNext()) && sendNext());
    })
    pumping = false
  }

  function beginNext(): boolean {
    if (waiting[0]?.ready !== true) return false
    current = waiting.shift()
    current?.begin()
    return true
  }

  /** Answers false when there is nothing to be sent for now. */
  function sendNext(): boolean {
    const bytes = current?.next()
    if (bytes !== undefined) writable = sink.write(bytes)
    if (current?.over === true) finishCurrent()
    else if (bytes === undefined) return false
    return true
  }

  function finishCurrent(): void {
    current?.leave()
    current = undefined
    idleSinceMs = clock.monotonicMs()
    if (waiting.length > 0) return
    if (wanted.requestId !== '') end()
    else if (draining) end(shuttingDown())
  }

  function assertNotStalled(nowMs: number): void {
    const stalledMs = stall.look(nowMs)
    const { slowConsumers, limits: ofRoute } = current?.route ?? {}
    if (slowConsumers !== 'wait' || ofRoute === undefined || stalledMs <= ofRoute.idleSeconds * 1000) return
    context.stats.route(current?.route.name ?? '').counters.consumers_cut_off += 1
    const seconds = ofRoute.idleSeconds
    throw new GrpcError('RESOURCE_EXHAUSTED', `too slow: nothing was taken for ${seconds} s, and others wait`)
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
        current?.sweep()
      })
      const idle = current === undefined && waiting.length === 0
      if (!idle || limits.pullIdleMs === 0 || nowMs - idleSinceMs <= limits.pullIdleMs) return
      end(new GrpcError('DEADLINE_EXCEEDED', `no request matched for ${limits.pullIdleMs / 1000} s`))
    },
    recheck() {
      for (const serving of current === undefined ? waiting : [current, ...waiting]) {
        const route = routeOf(context, serving.request)
        if (!admits(route, token)) return breakOff(refusal(route, token))
      }
    },
    drain() {
      draining = true
      if (current === undefined && waiting.length === 0) end(shuttingDown())
    },
    cut: breakOff,
    done: done.promise,
    wanted,
    get request() {
      return current?.request
    },
    get behind() {
      return current?.behind ?? { entries: 0, bytes: 0 }
    },
    peer: caller.peer,
  }
}

/** What a call is told that comes, or still runs, when the process is to end. */
export const shuttingDown = () => new GrpcError('UNAVAILABLE', 'the broker is shutting down')

function receivedOf({ metadata }: Caller): ReadonlyMap<string, number> {
  try {
    return readReceived(metadata.get(receivedMetadata) ?? [])
  } catch (error) {
    throw new GrpcError('INVALID_ARGUMENT', (error as Error).message)
  }
}
