import { setTimeout as pause } from 'node:timers/promises'
import { Ring } from '../ring.ts'
import {
  type LoggedRequest,
  LogRefusal,
  type Progress,
  type RequestEnd,
  type RequestWriter,
  type ResumedRequest,
  type WriterEnd,
} from '../stream-log.ts'
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
  /** The only writer that may append; the one before is `continued`. */
  openWriter(): RequestWriter
  /** The same for the producer that continues the request here; undefined when the request has ended. */
  resume(): Omit<ResumedRequest, 'uses'> | undefined
  /** The producer has continued the request at another broker, which is the owner. */
  moved(): void
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
  /** What the request has, for a producer that comes from another broker. */
  readonly ring?: Ring
  readonly progress: Progress
  /** Called once, at the end, with the bytes that Redis keeps of it; undefined where that has no end. */
  readonly onEnd: (end: RequestEnd, storedBytes: number | undefined) => void
  /** Called instead, when the request has another owner. */
  readonly onMoved: () => void
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
  const { openedMs } = filed
  const ring = options.ring ?? new Ring({ header, openedMs, limits, clock, budget: setup.budget })
  const queue = createAppendQueue(setup, filed, ring)
  const readers = createRemoteReaders(setup, ring)
  let writer = createWriterState()
  let { progress } = options
  let pumping = false
  /** Redis holds more than the ring, though nothing is appended: the next command only trims. */
  let trimsNext = false
  /** Nothing more goes to Redis. */
  let over = false
  /** The producer has ended it. */
  let ending: { readonly end: RequestEnd; readonly done: PromiseWithResolvers<void> } | undefined
  /** The producer is gone and may come back. */
  let suspended: { readonly end: RequestEnd; readonly untilMs: number } | undefined
  /**
   * It did not come back in time: Redis is asked for this end, which another broker may have made impossible.
   */
  let overdue: RequestEnd | undefined
  /** Since when Redis owes the answer to what was sent last. */
  let owedSinceMs: number | undefined
  /** What Redis has refused last of what is owed, it had no memory for. */
  let full = false

  const maxQueued = () => Math.max(minQueuedBytes, Math.min(limits.bytes, maxQueuedBytes, setup.budget.share))
  const isHeld = () => !over && (ring.full || queue.bytes > maxQueued())

  function tellRoom(): void {
    if (!isHeld()) writer.tellRoom()
  }

  /** Ends what concerns the producer and Redis. The ring may have readers that go on. */
  function detach(): void {
    over = true
    queue.clear()
    readers.clear()
    // The producer's call is not kept with what it has sent.
    ring.onRoom(() => {})
  }

  function stop(end: RequestEnd, isInRedis: boolean): void {
    if (over) return
    detach()
    ring.finish(end)
    if (ending === undefined || (isInRedis && end.how !== ending.end.how)) writer.end(end)
    if (isInRedis) ending?.done.resolve()
    else ending?.done.reject(unavailable(full ? outOfMemory : 'the log did not take the end of the request'))
    writer.close()
    if (isInRedis) options.onEnd(end, queue.storedBytes + header.length)
    else options.onEnd(ending?.end ?? end, undefined)
  }

  function moved(): void {
    if (over) return
    detach()
    writer.end({ how: 'continued' })
    ending?.done.reject(unavailable('the producer has continued in another call'))
    writer.close()
    options.onMoved()
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
      if (answer === 'moved') return moved()
      if (answer === 'gone') return stop({ how: 'lost', status: lostDataStatus }, false)
      if (answer !== 'ok') return stop(JSON.parse(answer), true)
      queue.taken()
      tellRoom()
    }
    const end = ending?.end ?? overdue
    if (end === undefined) return
    const answer = await untilAnswered(() => endRequest(setup, filed, end))
    if (answer?.what === 'gone') stop({ how: 'lost', status: lostDataStatus }, false)
    else if (answer?.what === 'moved') moved()
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
    if (queue.length > 0 || ending !== undefined || overdue !== undefined) schedule()
  }

  function finish(end: RequestEnd): Promise<void> {
    if (ending === undefined) {
      ending = { end, done: Promise.withResolvers() }
      ring.finish(end)
      schedule()
    }
    return ending.done.promise
  }

  function schedule(): void {
    if (pumping || over) return
    pumping = true
    run()
  }

  function append(bytes: Uint8Array, next: Progress | undefined): boolean {
    if (over || ending !== undefined) return true
    const receivedMs = clock.nowMs()
    progress = next ?? progress
    queue.push({ bytes, receivedMs, progress: next })
    ring.append(bytes, receivedMs)
    schedule()
    return !isHeld()
  }

  function openWriter(): RequestWriter {
    const state = createWriterState()
    writer = state
    return {
      request: options.request,
      append: (bytes, next) => state.endedBy !== undefined || append(bytes, next),
      ready: () => (isHeld() ? state.room() : Promise.resolve()),
      get endedBy() {
        return state.endedBy
      },
      onEnded: state.onEnded,
      suspend(end) {
        if (state.endedBy === undefined) {
          suspended = { end, untilMs: clock.monotonicMs() + filed.graceMs }
        }
      },
      async end(end) {
        if (state.endedBy === undefined && !(over && ending === undefined)) await finish(end)
      },
    }
  }

  function expire(nowMs: number): void {
    if (suspended === undefined || over || nowMs < suspended.untilMs) return
    overdue ??= suspended.end
    schedule()
  }

  ring.onRoom(tellRoom)
  return {
    filed,
    ring,
    openWriter,
    resume() {
      if (over || ending !== undefined || overdue !== undefined) return undefined
      suspended = undefined
      writer.end({ how: 'continued' })
      writer.close()
      return { writer: openWriter(), header, progress }
    },
    moved,
    endedByOthers: end => stop(end, true),
    lose: end => stop(end, false),
    async shutDown(end) {
      if (over) return
      const isNews = ending === undefined
      const done = finish(end)
      if (isNews) writer.end(end)
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
      const nowMs = clock.monotonicMs()
      expire(nowMs)
      if (owedSinceMs !== undefined && nowMs - owedSinceMs > timings.awayMs) {
        stop({ how: 'lost', status: full ? fullStatus : awayStatus }, false)
      }
    },
  }
}

const unavailable = (message: string) => new LogRefusal('unavailable', message)

/** One writer's end, those who wait for it, and for room. */
function createWriterState() {
  const listeners: ((end: WriterEnd) => void)[] = []
  let endedBy: WriterEnd | undefined
  let room: PromiseWithResolvers<void> | undefined
  function tellRoom(): void {
    room?.resolve()
    room = undefined
  }
  return {
    get endedBy() {
      return endedBy
    },
    end(end: WriterEnd): void {
      endedBy = end
      for (const listener of listeners) listener(end)
    },
    onEnded(listener: (end: WriterEnd) => void): void {
      listeners.push(listener)
      if (endedBy !== undefined) listener(endedBy)
    },
    async room(): Promise<void> {
      if (endedBy !== undefined) return
      room ??= Promise.withResolvers()
      await room.promise
    },
    tellRoom,
    /** Nobody is told anything any more. */
    close(): void {
      tellRoom()
      listeners.length = 0
    },
  }
}
