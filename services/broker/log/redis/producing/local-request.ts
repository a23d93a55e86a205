import { Ring } from '../../ring.ts'
import {
  type LoggedRequest,
  LogRefusal,
  type Progress,
  type RequestEnd,
  type ResumedRequest,
} from '../../stream-log.ts'
import type { DirectoryEntry } from '../directory/directory-entry.ts'
import { createRemoteReaders, type RemoteReaders } from '../reading/remote-readers.ts'
import type { RedisLogSetup } from '../setup.ts'
import { type AppendQueue, createAppendQueue } from './append-queue.ts'
import { decodeEnd, endRequest, type StoredEnd } from './end-request.ts'
import { LocalWriter } from './local-writer.ts'
import { outOfMemory } from './out-of-memory.ts'
import { RepeatedCommand } from './repeated-command.ts'

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

export const awayStatus = { code: 'ERROR', message: 'the log is away' } as const
export const fullStatus = { code: 'ERROR', message: outOfMemory } as const
export const lostDataStatus = { code: 'ERROR', message: 'the log has lost the request' } as const

/**
 * A request whose producer is at this broker. Its local consumers read the ring, in the turn in which a
 * message arrives. The entries of one turn are sent to Redis together; until Redis answers, the next batch is
 * collected.
 */
export class LocalRequest {
  readonly filed: DirectoryEntry
  readonly ring: Ring
  /** The readers at other brokers. */
  readonly readers: RemoteReaders
  readonly #options: LocalRequestOptions
  readonly #queue: AppendQueue
  readonly #command: RepeatedCommand
  /** The only writer that may append; the previous one is `continued`. */
  #writer: LocalWriter
  #progress: Progress
  #pumping = false
  /** Redis stores more than the ring, but no entries are queued: the next command only trims. */
  #trimsNext = false
  /** No more entries are sent to Redis. */
  #over = false
  /** The producer has ended it. */
  #ending: { readonly end: RequestEnd; readonly done: PromiseWithResolvers<void> } | undefined
  /** The producer is disconnected and may return. */
  #suspended: { readonly end: RequestEnd; readonly untilMs: number } | undefined
  /**
   * The producer did not return in time: Redis must store this end, unless another broker has prevented it.
   */
  #overdue: RequestEnd | undefined

  constructor(options: LocalRequestOptions) {
    const { setup, filed, header, request, progress } = options
    const { clock, budget } = setup
    const { openedMs, limits } = filed
    this.filed = filed
    this.ring = options.ring ?? new Ring({ header, openedMs, limits, clock, budget })
    this.readers = createRemoteReaders(setup, this.ring)
    this.#options = options
    this.#queue = createAppendQueue(setup, filed, this.ring)
    this.#command = new RepeatedCommand(setup)
    this.#writer = new LocalWriter(request, this)
    this.#progress = progress
    this.ring.onRoom(() => this.#notifyRoom())
  }

  get writer(): LocalWriter {
    return this.#writer
  }

  /** The progress of the last entry. */
  get progress(): Progress {
    return this.#progress
  }

  /** The producer must wait: the ring or the queue for Redis is full. */
  get isHeld(): boolean {
    const { budget } = this.#options.setup
    const share = Math.min(this.filed.limits.bytes, maxQueuedBytes, budget.share)
    return !this.#over && (this.ring.full || this.#queue.bytes > Math.max(minQueuedBytes, share))
  }

  /**
   * Replaces the writer, for the producer that continues the request here; undefined if the request has
   * ended.
   */
  resume(): Omit<ResumedRequest, 'uses'> | undefined {
    if (this.#over || this.#pendingEnd !== undefined) return undefined
    this.#suspended = undefined
    this.#writer.notifyEnd({ how: 'continued' })
    this.#writer.close()
    const { header, request } = this.#options
    this.#writer = new LocalWriter(request, this)
    return { writer: this.#writer, header, progress: this.#progress }
  }

  /** See `RequestWriter.append`; only its writer calls it. */
  append(bytes: Uint8Array, progress: Progress | undefined): boolean {
    if (this.#over || this.#ending !== undefined) return true
    const receivedMs = this.#options.setup.clock.nowMs()
    this.#progress = progress ?? this.#progress
    this.#queue.push({ bytes, receivedMs, progress })
    this.ring.append(bytes, receivedMs)
    this.#schedule()
    return !this.isHeld
  }

  /** The producer is disconnected: the request has this end unless it returns within the grace period. */
  suspend(end: RequestEnd): void {
    this.#suspended = { end, untilMs: this.#options.setup.clock.monotonicMs() + this.filed.graceMs }
  }

  /** Ends the request. Resolves when Redis has the end; rejects with a `LogRefusal` `unavailable`. */
  async finish(end: RequestEnd): Promise<void> {
    if (this.#ending === undefined) {
      if (this.#over) return
      this.#ending = { end, done: Promise.withResolvers() }
      this.ring.finish(end)
      this.#schedule()
    }
    await this.#ending.done.promise
  }

  /** Ends it like its producer, which is notified. Never rejects: `close` may come first. */
  async shutDown(end: RequestEnd): Promise<void> {
    if (this.#over) return
    const isFirst = this.#ending === undefined
    const done = this.finish(end)
    if (isFirst) this.#writer.notifyEnd(end)
    await done.catch(() => {})
  }

  /** Redis has this end of the request, from its producer or from others. */
  settle(stored: StoredEnd): void {
    if (this.#over) return
    const { end } = stored
    this.#detach()
    this.ring.finish(end)
    if (end.how !== this.#ending?.end.how) this.#writer.notifyEnd(end)
    this.#ending?.done.resolve()
    this.#writer.close()
    this.#options.onEnd(stored, this.#queue.storedBytes + this.#options.header.length)
  }

  /**
   * Redis has no end of it, and the request cannot continue. The end of its producer is stored later only if
   * Redis has all entries, so that no reader of another broker takes a truncated request for a complete one.
   */
  close(end: RequestEnd): void {
    if (this.#over) return
    const owed = this.#queue.length === 0 ? (this.#ending?.end ?? end) : end
    this.#detach()
    this.ring.finish(end)
    if (this.#ending === undefined) this.#writer.notifyEnd(end)
    const reason = this.#command.full ? outOfMemory : 'the log did not take the end of the request'
    this.#ending?.done.reject(new LogRefusal('unavailable', reason))
    this.#writer.close()
    this.#options.onLost(owed)
  }

  /** The producer has continued the request at another broker, which is the new owner. */
  moved(): void {
    if (this.#over) return
    this.#detach()
    this.#writer.notifyEnd({ how: 'continued' })
    const reason = 'the producer has continued in another call'
    this.#ending?.done.reject(new LogRefusal('unavailable', reason))
    this.#writer.close()
    this.#options.onMoved()
  }

  /** The process was paused, and may have an unread reply. */
  extendDeadlinesAfterStall(): void {
    this.#command.extendDeadlineAfterStall()
  }

  /** Checks the timeouts. */
  tick(): void {
    this.ring.sweep()
    if (this.#queue.isTrimDue && !this.#over) {
      this.#trimsNext = true
      this.#schedule()
    }
    this.readers.dropVanished()
    this.#endIfOverdue()
    if (!this.#command.isOverdue) return
    this.close({ how: 'lost', status: this.#command.full ? fullStatus : awayStatus })
  }

  #endIfOverdue(): void {
    if (this.#suspended === undefined || this.#over) return
    if (this.#options.setup.clock.monotonicMs() < this.#suspended.untilMs) return
    this.#overdue ??= this.#suspended.end
    this.#schedule()
  }

  /** The end that Redis must store after the queued entries. */
  get #pendingEnd(): RequestEnd | undefined {
    return this.#ending?.end ?? this.#overdue
  }

  /** Releases the producer and stops sending to Redis. The ring may still have readers. */
  #detach(): void {
    this.#over = true
    this.#command.cancel()
    this.#queue.clear()
    this.readers.clear()
    // Releases the producer's call, which the callback refers to.
    this.ring.onRoom(() => {})
  }

  #notifyRoom(): void {
    if (!this.isHeld) this.#writer.notifyRoom()
  }

  #schedule(): void {
    if (this.#pumping || this.#over) return
    this.#pumping = true
    this.#run()
  }

  async #run(): Promise<void> {
    // Collects the entries of this turn.
    await new Promise(setImmediate)
    try {
      await this.#pump()
    } catch {
      // The log was closed: nothing will be sent any more.
      return
    }
    this.#pumping = false
    if (this.#queue.length > 0 || this.#pendingEnd !== undefined) this.#schedule()
  }

  /** The end is sent in the turn in which the queue is found empty, so that no entry comes after it. */
  async #pump(): Promise<void> {
    while (this.#queue.length > 0 || this.#trimsNext) if (!(await this.#sendBatch())) return
    const end = this.#pendingEnd
    if (end === undefined) return
    const answer = await this.#command.send(() => endRequest(this.#options.setup, this.filed, end))
    if (answer?.what === 'gone') this.close({ how: 'lost', status: lostDataStatus })
    else if (answer?.what === 'moved') this.moved()
    else if (answer !== undefined) this.settle(answer)
  }

  /** Resolves with whether the next batch may follow. */
  async #sendBatch(): Promise<boolean> {
    this.#trimsNext = false
    const answer = await this.#command.send(this.#queue.send)
    if (answer === 'ok') {
      this.#queue.taken()
      this.#notifyRoom()
      return true
    }
    if (answer === 'moved') this.moved()
    else if (answer === 'gone') this.close({ how: 'lost', status: lostDataStatus })
    else if (answer !== undefined) this.settle(decodeEnd(answer))
    return false
  }
}
