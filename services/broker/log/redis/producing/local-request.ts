import { setTimeout as pause } from 'node:timers/promises'
import { Ring } from '../../ring.ts'
import {
  type LoggedRequest,
  LogRefusal,
  type Progress,
  type RequestEnd,
  type RequestWriter,
  type ResumedRequest,
  type WriterEnd,
} from '../../stream-log.ts'
import type { DirectoryEntry } from '../directory/directory-entry.ts'
import { createRemoteReaders, type RemoteReaders } from '../reading/remote-readers.ts'
import type { RedisLogSetup } from '../setup.ts'
import { createAppendQueue } from './append-queue.ts'
import { decodeEnd, endRequest, type StoredEnd } from './end-request.ts'
import { isOutOfMemory, outOfMemory } from './out-of-memory.ts'

/**
 * A request whose producer is at this broker. Its local consumers read the ring, in the turn in which a
 * message arrives. The entries of one turn are sent to Redis together; until Redis answers, the next batch is
 * collected.
 */
export interface LocalRequest {
  readonly filed: DirectoryEntry
  readonly ring: Ring
  /** The only writer that may append; the previous one is `continued`. */
  openWriter(): RequestWriter
  /**
   * Like `openWriter`, for the producer that continues the request here; undefined if the request has ended.
   */
  resume(): Omit<ResumedRequest, 'uses'> | undefined
  /** The producer has continued the request at another broker, which is the new owner. */
  moved(): void
  /** The progress of the last entry. */
  readonly progress: Progress
  /** Redis has an end that did not come from its producer. */
  endedByOthers(stored: StoredEnd): void
  /** Redis has no end of it, and the request cannot continue. */
  close(end: RequestEnd): void
  /** Ends it like its producer, which is notified. Never rejects: `close` may come first. */
  shutDown(end: RequestEnd): Promise<void>
  /** The readers at other brokers. */
  readonly readers: RemoteReaders
  /** The process was paused, and may have an unread reply. */
  extendDeadlinesAfterStall(): void
  /** Checks the timeouts. */
  tick(): void
}

export interface LocalRequestOptions {
  readonly setup: RedisLogSetup
  readonly filed: DirectoryEntry
  readonly header: Uint8Array
  readonly request: LoggedRequest
  /** The ring of the request, for a producer that comes from another broker. */
  readonly ring?: Ring
  readonly progress: Progress
  /** Called once, at the end of a request whose end Redis has, with the bytes that Redis stores. */
  readonly onEnd: (stored: StoredEnd, storedBytes: number) => void
  /** Called instead, if Redis has no end. */
  readonly onLost: (end: RequestEnd) => void
  /** Called instead, if the request has another owner. */
  readonly onMoved: () => void
}

/**
 * The limits of the queue for Redis, at which the producer waits: the limit of the request or its share of
 * the budget, within these bounds.
 */
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
  /** Redis stores more than the ring, but no entries are queued: the next command only trims. */
  let trimsNext = false
  /** No more entries are sent to Redis. */
  let over = false
  /** The producer has ended it. */
  let ending: { readonly end: RequestEnd; readonly done: PromiseWithResolvers<void> } | undefined
  /** The producer is disconnected and may return. */
  let suspended: { readonly end: RequestEnd; readonly untilMs: number } | undefined
  /**
   * The producer did not return in time: Redis must store this end, unless another broker has prevented it.
   */
  let overdue: RequestEnd | undefined
  /** The time since which the reply to the last command is pending. */
  let owedSinceMs: number | undefined
  /** Redis rejected the last command because it has no memory. */
  let full = false

  const maxQueued = () => Math.max(minQueuedBytes, Math.min(limits.bytes, maxQueuedBytes, setup.budget.share))
  const isHeld = () => !over && (ring.full || queue.bytes > maxQueued())

  function notifyRoom(): void {
    if (!isHeld()) writer.notifyRoom()
  }

  /** Releases the producer and stops sending to Redis. The ring may still have readers. */
  function detach(): void {
    over = true
    queue.clear()
    readers.clear()
    // Releases the producer's call, which the callback refers to.
    ring.onRoom(() => {})
  }

  function stop(stored: StoredEnd): void {
    const { end } = stored
    if (over) return
    detach()
    ring.finish(end)
    if (ending === undefined || end.how !== ending.end.how) writer.end(end)
    ending?.done.resolve()
    writer.close()
    options.onEnd(stored, queue.storedBytes + header.length)
  }

  function close(end: RequestEnd): void {
    if (over) return
    detach()
    ring.finish(end)
    if (ending === undefined) writer.end(end)
    ending?.done.reject(unavailable(full ? outOfMemory : 'the log did not take the end of the request'))
    writer.close()
    options.onLost(ending?.end ?? end)
  }

  function moved(): void {
    if (over) return
    detach()
    writer.end({ how: 'continued' })
    ending?.done.reject(unavailable('the producer has continued in another call'))
    writer.close()
    options.onMoved()
  }

  /** Sends until there is a reply; undefined if the request was ended in the meantime. */
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
      if (answer === 'gone') return close({ how: 'lost', status: lostDataStatus })
      if (answer !== 'ok') return stop(decodeEnd(answer))
      queue.taken()
      notifyRoom()
    }
    const end = ending?.end ?? overdue
    if (end === undefined) return
    const answer = await untilAnswered(() => endRequest(setup, filed, end))
    if (answer?.what === 'gone') close({ how: 'lost', status: lostDataStatus })
    else if (answer?.what === 'moved') moved()
    else if (answer !== undefined) stop(answer)
  }

  async function run(): Promise<void> {
    // Collects the entries of this turn.
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

  ring.onRoom(notifyRoom)
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
    get progress() {
      return progress
    },
    endedByOthers: stop,
    close,
    async shutDown(end) {
      if (over) return
      const isNews = ending === undefined
      const done = finish(end)
      if (isNews) writer.end(end)
      await done.catch(() => {})
    },
    readers,
    extendDeadlinesAfterStall() {
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
        close({ how: 'lost', status: full ? fullStatus : awayStatus })
      }
    },
  }
}

const unavailable = (message: string) => new LogRefusal('unavailable', message)

/** The end of one writer, and its callers that wait for the end or for room. */
function createWriterState() {
  const listeners: ((end: WriterEnd) => void)[] = []
  let endedBy: WriterEnd | undefined
  let room: PromiseWithResolvers<void> | undefined
  function notifyRoom(): void {
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
    notifyRoom,
    /** No more notifications. */
    close(): void {
      notifyRoom()
      listeners.length = 0
    },
  }
}
