import { setTimeout as pause } from 'node:timers/promises'
import { Ring } from '../ring.ts'
import { type LoggedRequest, LogRefusal, type RequestEnd, type RequestWriter } from '../stream-log.ts'
import { createAppendQueue } from './append-queue.ts'
import { endRequest } from './end-request.ts'
import type { FiledRequest } from './filed-request.ts'
import { isOutOfMemory, outOfMemory } from './out-of-memory.ts'
import { createRemoteReaders, type RemoteReaders } from './remote-readers.ts'
import type { RedisLogSetup } from './setup.ts'

/**
 * A request whose producer is here. Its consumers here read the ring, in the turn in which a message came;
 * what was appended in a turn goes to Redis together, and while Redis has not answered the next batch
 * gathers.
 */
export interface LocalRequest {
  readonly filed: FiledRequest
  readonly ring: Ring
  readonly writer: RequestWriter
  /** Redis has an end of it that did not come from its producer. */
  endedByOthers(end: RequestEnd): void
  /** Redis has no end of it, and the request goes on no more. */
  lose(end: RequestEnd): void
  /** Ends it as the producer would, who is told. Never rejects: `lose` may come first. */
  shutDown(end: RequestEnd): Promise<void>
  /** The readers that other brokers have of it. */
  readonly readers: RemoteReaders
  /** The process stood still, and may have the answer that it waits for without having read it. */
  excuseOwnPause(): void
  /** Looks what has taken too long. */
  tick(): void
}

export interface LocalRequestOptions {
  readonly setup: RedisLogSetup
  readonly filed: FiledRequest
  readonly header: Uint8Array
  readonly request: LoggedRequest
  /** Called once, at the end, with the bytes that Redis keeps of it; undefined where that has no end. */
  readonly onEnd: (end: RequestEnd, storedBytes: number | undefined) => void
}

/** What may wait for Redis before the producer does: what the request or its share holds, within these. */
const minQueuedBytes = 64 * 1024
const maxQueuedBytes = 1024 * 1024
const retryMs = 100

export const awayStatus = { code: 'ERROR', message: 'the log is away' } as const
export const fullStatus = { code: 'ERROR', message: outOfMemory } as const
export const lostDataStatus = { code: 'ERROR', message: 'the log has lost the request' } as const

export function createLocalRequest(options: LocalRequestOptions): LocalRequest {
  const { setup, filed, header } = options
  const { clock, timings } = setup
  const { limits } = filed
  const ring = new Ring({ header, openedMs: filed.openedMs, limits, clock, budget: setup.budget })
  const queue = createAppendQueue(setup, filed, ring)
  const readers = createRemoteReaders(setup, ring)
  const listeners: ((end: RequestEnd) => void)[] = []
  let pumping = false
  /** Redis holds more than the ring, though nothing is appended: the next command only trims. */
  let trimsNext = false
  /** Nothing more goes to Redis. */
  let over = false
  let endedBy: RequestEnd | undefined
  /** The producer has ended it. */
  let ending: { readonly end: RequestEnd; readonly done: PromiseWithResolvers<void> } | undefined
  let room: PromiseWithResolvers<void> | undefined
  /** Since when Redis owes the answer to what was sent last. */
  let owedSinceMs: number | undefined
  /** What Redis has refused last of what is owed, it had no memory for. */
  let full = false

  const maxQueued = () => Math.max(minQueuedBytes, Math.min(limits.bytes, maxQueuedBytes, setup.budget.share))
  const isHeld = () => !over && (ring.full || queue.bytes > maxQueued())

  function tellRoom(): void {
    if (room === undefined || isHeld()) return
    room.resolve()
    room = undefined
  }

  function stop(end: RequestEnd, isInRedis: boolean): void {
    if (over) return
    over = true
    queue.clear()
    readers.clear()
    ring.finish(end)
    if (ending === undefined || (isInRedis && end.how !== ending.end.how)) tellProducer(end)
    if (isInRedis) ending?.done.resolve()
    else
      ending?.done.reject(
        new LogRefusal('unavailable', full ? outOfMemory : 'the log did not take the end of the request'),
      )
    tellRoom()
    // The producer's call is not kept with what it has sent.
    listeners.length = 0
    ring.onRoom(() => {})
    if (isInRedis) options.onEnd(end, queue.storedBytes + header.length)
    else options.onEnd(ending?.end ?? end, undefined)
  }

  /** Sends until there is an answer; undefined when the request was ended meanwhile. */
  async function untilAnswered<T>(send: () => Promise<T>): Promise<T | undefined> {
    owedSinceMs = clock.monotonicMs()
    while (!over) {
      try {
        const answer = await send()
        owedSinceMs = undefined
        full = false
        return over ? undefined : answer
      } catch (error) {
        full = isOutOfMemory(error)
        if (setup.commands.ready) await pause(retryMs)
        else await setup.commands.whenReady()
      }
    }
    return undefined
  }

  async function pump(): Promise<void> {
    while (queue.length > 0 || trimsNext) {
      trimsNext = false
      const answer = await untilAnswered(queue.send)
      if (answer === undefined) return
      if (answer === 'gone') return stop({ how: 'lost', status: lostDataStatus }, false)
      if (answer !== 'ok') return stop(JSON.parse(answer), true)
      queue.taken()
      tellRoom()
    }
    if (ending === undefined) return
    const { end } = ending
    const answer = await untilAnswered(() => endRequest(setup, filed, end))
    if (answer?.what === 'gone') stop({ how: 'lost', status: lostDataStatus }, false)
    else if (answer !== undefined) stop(answer.by, true)
  }

  async function run(): Promise<void> {
    // What comes in this turn goes together.
    await new Promise(setImmediate)
    try {
      await pump()
    } catch {
      // The log was closed: nothing will be sent any more.
      return
    }
    pumping = false
    if (queue.length > 0 || ending !== undefined) schedule()
  }

  function finish(end: RequestEnd): Promise<void> {
    if (ending === undefined) {
      ending = { end, done: Promise.withResolvers() }
      ring.finish(end)
      schedule()
    }
    return ending.done.promise
  }

  function tellProducer(end: RequestEnd): void {
    endedBy = end
    for (const listener of listeners) listener(end)
  }

  function schedule(): void {
    if (pumping || over) return
    pumping = true
    run()
  }

  ring.onRoom(tellRoom)
  return {
    filed,
    ring,
    writer: {
      request: options.request,
      append(bytes) {
        if (over || ending !== undefined) return true
        const receivedMs = clock.nowMs()
        queue.push({ bytes, receivedMs })
        ring.append(bytes, receivedMs)
        schedule()
        return !isHeld()
      },
      ready() {
        if (!isHeld()) return Promise.resolve()
        room ??= Promise.withResolvers()
        return room.promise
      },
      get endedBy() {
        return endedBy
      },
      onEnded(listener) {
        listeners.push(listener)
        if (endedBy !== undefined) listener(endedBy)
      },
      end: end => (over && ending === undefined ? Promise.resolve() : finish(end)),
    },
    endedByOthers: end => stop(end, true),
    lose: end => stop(end, false),
    async shutDown(end) {
      if (over) return
      const isNews = ending === undefined
      const done = finish(end)
      if (isNews) tellProducer(end)
      await done.catch(() => {})
    },
    readers,
    excuseOwnPause() {
      if (owedSinceMs !== undefined) owedSinceMs = clock.monotonicMs()
    },
    tick() {
      ring.sweep()
      if (queue.isTrimDue && !over) {
        trimsNext = true
        schedule()
      }
      readers.dropVanished()
      if (owedSinceMs !== undefined && clock.monotonicMs() - owedSinceMs > timings.awayMs) {
        stop({ how: 'lost', status: full ? fullStatus : awayStatus }, false)
      }
    },
  }
}
