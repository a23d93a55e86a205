import { getOrAdd } from '@tollway/chassis/get-or-add.ts'
import { GrpcError, statusName } from '@tollway/grpc/status.ts'
import type { Repeat } from '../stream-log/repeat.ts'
import type { LoggedRequest } from '../stream-log/stream-log.ts'
import type { AnimationIds } from '../wire/animation-ids.ts'
import { KeyedCounter } from './keyed-counter.ts'
import { Pull, type PullSink, shutdownError } from './pull.ts'
import { Push } from './push.ts'
import type { ReceivedTotals } from './pushed-request.ts'
import type { BrokerOptions, PullCaller, PushCaller, StreamContext } from './stream-context.ts'

export interface RequestView {
  readonly request: LoggedRequest
  /** Undefined if the producer is disconnected or at another process. */
  readonly producer: { readonly peer: string } | undefined
  /**
   * What this process has received from the producer, even if the producer is no longer here; undefined if it
   * never was here.
   */
  readonly received: ReceivedTotals | undefined
  readonly consumers: readonly { readonly peer: string; readonly behind: Pull['behind'] }[]
}

type CallKind = 'push' | 'pull'

/** The interval in which time limits are checked, and so their precision. */
const sweepEveryMs = 250

/** Accepts the pushes and pulls of one process within the limits, and ends them. */
export class Broker {
  readonly #context: StreamContext
  readonly #pushes = new Set<Push>()
  readonly #pulls = new Set<Pull>()
  /** The totals of requests whose producer is no longer connected to this process. */
  readonly #received = new WeakMap<LoggedRequest, ReceivedTotals>()
  readonly #stopChecks: readonly (() => void)[]
  #draining = false
  #onIdle = () => {}

  constructor(options: BrokerOptions, repeat: Repeat) {
    this.#context = {
      ...options,
      requestsOfRoute: new KeyedCounter(),
      consumersOfRequest: new KeyedCounter(),
    }
    const { stats, log, routes } = options
    this.#stopChecks = [
      repeat(sweepEveryMs, () => {
        for (const call of [...this.#pushes, ...this.#pulls]) call.sweep()
      }),
      routes.onChange(() => {
        // Pulls first: the end of a push would end its pulls with OK, although the route no longer admits
        // them.
        for (const call of [...this.#pulls, ...this.#pushes]) call.recheck()
      }),
    ]
    stats.gauge('producers.active', () => this.#pushes.size)
    stats.gauge('consumers.active', () => this.#pulls.size)
    stats.gauge('streams.active', () => log.list().filter(({ ended }) => !ended).length)
    stats.gauge('queue.messages', () => this.#sumBehind('entries'))
    stats.gauge('queue.bytes', () => this.#sumBehind('bytes'))
  }

  /** @throws GrpcError if no more pushes are accepted, and for an invalid resume token */
  push(caller: PushCaller): Push {
    const { maxPushes } = this.#context.limits
    const push = this.#begin('push', this.#pushes, maxPushes, () => new Push(this.#context, caller))
    const keepReceived = () => {
      const { request, received } = push
      if (request !== undefined && received !== undefined) this.#received.set(request, received)
    }
    push.done.then(keepReceived, keepReceived)
    return push
  }

  /** @throws GrpcError if no more pulls are accepted, and for an invalid pull */
  pull(wanted: AnimationIds, caller: PullCaller, sink: PullSink): Pull {
    const { maxPulls } = this.#context.limits
    return this.#begin('pull', this.#pulls, maxPulls, () => new Pull(this.#context, { wanted, caller, sink }))
  }

  /** Rejects new calls, and ends the pulls that wait for a request. Running requests continue. */
  drain(): void {
    this.#draining = true
    for (const pull of [...this.#pulls]) pull.drain()
  }

  /** Resolves when no call is running. */
  idle(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#onIdle = resolve
    this.#reportIfIdle()
    return promise
  }

  /** Ends all calls with ERROR "shutting down". */
  async close(): Promise<void> {
    this.#draining = true
    for (const stop of this.#stopChecks) stop()
    await this.#context.log.close()
    for (const call of [...this.#pushes, ...this.#pulls]) call.close(shutdownError())
  }

  /**
   * Returns the requests with a connected producer, and the pulls that serve a request, of each route that
   * has any.
   */
  loads() {
    const loads = new Map<string, { route: string; activeStreams: number; consumers: number }>()
    const findLoad = ({ route }: LoggedRequest) =>
      getOrAdd(loads, route, () => ({ route, activeStreams: 0, consumers: 0 }))
    for (const { request } of this.#pushes) if (request !== undefined) findLoad(request).activeStreams += 1
    for (const { request } of this.#pulls) if (request !== undefined) findLoad(request).consumers += 1
    return [...loads.values()]
  }

  /** Returns the known requests, with their consumers in this process. */
  requests(): readonly RequestView[] {
    const producers = new Map<string, { readonly peer: string; readonly received: ReceivedTotals }>()
    for (const { request, received, peer } of this.#pushes) {
      if (request !== undefined && received !== undefined) producers.set(request.key, { peer, received })
    }
    const consumers = Map.groupBy(this.#pulls, ({ request }) => request?.key)
    return this.#context.log.list().map(request => ({
      request,
      producer: producers.get(request.key),
      received: producers.get(request.key)?.received ?? this.#received.get(request),
      consumers: (consumers.get(request.key) ?? []).map(({ peer, behind }) => ({ peer, behind })),
    }))
  }

  get waitingPulls(): number {
    return [...this.#pulls].filter(({ request, ending }) => request === undefined && !ending).length
  }

  /** Keeps the call in `running` until it ends. Counts the error of a call that is rejected or fails. */
  #begin<Of extends Push | Pull>(call: CallKind, running: Set<Of>, limit: number, begin: () => Of): Of {
    try {
      this.#assertRoom(call, running.size, limit)
      const begun = begin()
      running.add(begun)
      begun.done
        .catch((error: unknown) => this.#countError(call, error))
        .finally(() => {
          running.delete(begun)
          this.#reportIfIdle()
        })
      return begun
    } catch (error) {
      this.#countError(call, error)
      throw error
    }
  }

  #assertRoom(call: CallKind, running: number, limit: number): void {
    if (this.#draining) throw shutdownError()
    if (running < limit) return
    throw new GrpcError('RESOURCE_EXHAUSTED', `${limit} calls of ${call} are running, which are all`)
  }

  #countError(call: CallKind, error: unknown): void {
    if (error instanceof GrpcError) this.#context.stats.failed(call, statusName(error.code))
  }

  #reportIfIdle(): void {
    if (this.#pushes.size === 0 && this.#pulls.size === 0) this.#onIdle()
  }

  #sumBehind(what: keyof Pull['behind']): number {
    return this.#pulls.values().reduce((sum, { behind }) => sum + behind[what], 0)
  }
}
