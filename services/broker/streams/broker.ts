import { GrpcError, statusName } from '@tollway/grpc/status.ts'
import type { Repeat } from '../log/repeat.ts'
import type { LoggedRequest } from '../log/stream-log.ts'
import type { AnimationIds } from '../wire/animation-ids.ts'
import { Pull, type PullSink, shuttingDown } from './pull.ts'
import { Push } from './push.ts'
import type { Received } from './pushed-request.ts'
import type { Caller, Pusher, StreamContext } from './stream-context.ts'

/** The pushes and pulls of one process. */
export interface Broker {
  /** @throws GrpcError if no more pushes are accepted, and for an invalid resume token */
  push(caller: Pusher): Push
  /** @throws GrpcError if no more pulls are accepted, and for an invalid pull */
  pull(wanted: AnimationIds, caller: Caller, sink: PullSink): Pull
  /** Rejects new calls, and ends the pulls that wait for a request; running requests can end. */
  drain(): void
  /** Resolves when no call is running. */
  idle(): Promise<void>
  /** Ends running calls with ERROR "shutting down" for consumers and producers. */
  close(): Promise<void>
  /** The load of each route in this process; routes without load are left out. */
  loads(): readonly RouteLoad[]
  /** The requests that this process knows, and their consumers in this process. */
  requests(): readonly RequestView[]
  readonly waitingPulls: number
}

export interface RouteLoad {
  readonly route: string
  /** Requests whose producer is connected to this process. */
  readonly activeStreams: number
  readonly consumers: number
}

export interface RequestView {
  readonly request: LoggedRequest
  /** Undefined if the producer is disconnected or connected to another process. */
  readonly producer: { readonly peer: string; readonly received: Received } | undefined
  readonly consumers: readonly { readonly peer: string; readonly behind: Pull['behind'] }[]
}

/** The interval in which time limits are checked, which is also their precision. */
const sweepEveryMs = 250

export function createBroker(context: StreamContext, repeat: Repeat): Broker {
  const { log, stats, limits } = context
  const pushes = new Set<Push>()
  const pulls = new Set<Pull>()
  let draining = false
  let onIdle = () => {}

  const stopSweep = repeat(sweepEveryMs, () => {
    for (const call of [...pushes, ...pulls]) call.sweep()
  })
  const stopRouteWatch = context.routes.onChange(() => {
    // The end of a push ends its pulls with OK: a pull that the route no longer admits has to end before it.
    for (const call of [...pulls, ...pushes]) call.recheck()
  })

  function assertRoom(call: 'push' | 'pull', running: number, limit: number): void {
    if (draining) throw shuttingDown()
    if (running < limit) return
    throw new GrpcError('RESOURCE_EXHAUSTED', `${limit} calls of ${call} are running, which are all`)
  }

  function counted<T>(call: 'push' | 'pull', begin: () => T): T {
    try {
      return begin()
    } catch (error) {
      countError(call, error)
      throw error
    }
  }

  function countError(call: 'push' | 'pull', error: unknown): void {
    if (error instanceof GrpcError) stats.failed(call, statusName(error.code))
  }

  /** Keeps the call in its set until it ends. */
  function track<Of>(call: 'push' | 'pull', set: Set<Of>, entry: Of, ended: Promise<unknown>): void {
    set.add(entry)
    ended
      .catch((error: unknown) => countError(call, error))
      .finally(() => {
        set.delete(entry)
        if (pushes.size === 0 && pulls.size === 0) onIdle()
      })
  }

  stats.gauge('producers.active', () => pushes.size)
  stats.gauge('consumers.active', () => pulls.size)
  stats.gauge('streams.active', () => log.list().filter(({ ended }) => !ended).length)
  stats.gauge('queue.messages', () => sum([...pulls].map(({ behind }) => behind.entries)))
  stats.gauge('queue.bytes', () => sum([...pulls].map(({ behind }) => behind.bytes)))
  return {
    push: caller =>
      counted('push', () => {
        assertRoom('push', pushes.size, limits.pushes)
        const push = new Push(context, caller)
        track('push', pushes, push, push.answer)
        return push
      }),
    pull: (wanted, caller, sink) =>
      counted('pull', () => {
        assertRoom('pull', pulls.size, limits.pulls)
        const pull = new Pull(context, { wanted, caller, sink })
        track('pull', pulls, pull, pull.done)
        return pull
      }),
    drain() {
      draining = true
      for (const pull of [...pulls]) pull.drain()
    },
    idle() {
      const { promise, resolve } = Promise.withResolvers<void>()
      onIdle = resolve
      if (pushes.size === 0 && pulls.size === 0) resolve()
      return promise
    },
    async close() {
      draining = true
      stopSweep()
      stopRouteWatch()
      await log.close()
      for (const push of [...pushes]) push.close(shuttingDown())
      for (const pull of [...pulls]) pull.close(shuttingDown())
    },
    loads: () => loadsOf(pushes, pulls),
    requests: () => viewsOf(log.list(), pushes, pulls),
    get waitingPulls() {
      return [...pulls].filter(({ request, ending }) => request === undefined && !ending).length
    },
  }
}

const sum = (numbers: readonly number[]) => numbers.reduce((total, number) => total + number, 0)

function loadsOf(pushes: Iterable<Push>, pulls: Iterable<Pull>): readonly RouteLoad[] {
  const loads = new Map<string, { route: string; activeStreams: number; consumers: number }>()
  const loadOf = ({ route }: LoggedRequest) => {
    const load = loads.get(route) ?? { route, activeStreams: 0, consumers: 0 }
    loads.set(route, load)
    return load
  }
  for (const { request } of pushes) if (request !== undefined) loadOf(request).activeStreams += 1
  for (const { request } of pulls) if (request !== undefined) loadOf(request).consumers += 1
  return [...loads.values()]
}

function viewsOf(
  requests: readonly LoggedRequest[],
  pushes: Iterable<Push>,
  pulls: Iterable<Pull>,
): readonly RequestView[] {
  const producers = new Map<string, RequestView['producer']>()
  for (const { request, received, peer } of pushes) {
    if (request !== undefined && received !== undefined) producers.set(request.key, { peer, received })
  }
  const consumers = Map.groupBy(pulls, ({ request }) => request?.key)
  return requests.map(request => ({
    request,
    producer: producers.get(request.key),
    consumers: (consumers.get(request.key) ?? []).map(({ peer, behind }) => ({ peer, behind })),
  }))
}
