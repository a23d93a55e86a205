import { setTimeout as pause } from 'node:timers/promises'
import { Ring } from '../ring.ts'
import {
  type LoggedRequest,
  LogRejection,
  type RequestEnd,
  type ResumedRequest,
  type StoredProgress,
  type WriterEnd,
} from '../stream-log.ts'
import { type WritableRequest, Writer } from '../writer.ts'
import { AppendQueue } from './append-queue.ts'
import { isOutOfMemory, outOfMemory } from './connection.ts'
import { type DirectoryEntry, decodeEnd, endedEntry, type StoredEnd } from './directory-entry.ts'
import { type EndAnswer, endRequest } from './end-request.ts'
import { RemoteReaders } from './position-reports.ts'
import { lostScript } from './scripts.ts'
import type { RedisLogSetup } from './setup.ts'

interface LocalRequestOptions {
  readonly setup: RedisLogSetup
  readonly entry: DirectoryEntry
  readonly header: Uint8Array
  readonly request: LoggedRequest
  /** The ring of readers here, if the producer comes from another broker. */
  readonly ring?: Ring
  readonly progress: StoredProgress
  readonly uses: number
  /**
   * Called with the end that Redis returned for a command of this request. The directory then calls
   * `applyEnd`.
   */
  readonly apply: (entry: DirectoryEntry) => void
}

/**
 * The bounds of the queue for Redis. The producer waits while the queue has more bytes than the limit of the
 * request or its share of the budget allow.
 */
const minQueuedBytes = 64 * 1024
const maxQueuedBytes = 1024 * 1024

const createLostEnd = (message: string): RequestEnd => ({ how: 'lost', status: { code: 'ERROR', message } })
export const logUnavailableEnd = createLostEnd('the log is away')
export const dataLostEnd = createLostEnd('the log has lost the request')
const outOfMemoryEnd = createLostEnd(outOfMemory)

/**
 * A request whose producer is at this broker. Local consumers read the ring in the turn in which a message
 * arrives. The entries of one turn are sent to Redis together; until Redis answers, the next batch is
 * collected.
 */
export class LocalRequest implements WritableRequest {
  readonly entry: DirectoryEntry
  readonly ring: Ring
  /** The readers at other brokers. */
  readonly readers: RemoteReaders
  readonly #options: LocalRequestOptions
  readonly #queue: AppendQueue
  readonly #command: RepeatedCommand
  /** The only writer that may append. An earlier one has ended with `continued`. */
  #writer: Writer
  #progress: StoredProgress
  #sending = false
  /** Whether the next command only drops entries: none are queued, but Redis stores more than the ring. */
  #trimsNext = false
  /** Whether the request runs here no longer: nothing more is sent to Redis. */
  #over = false
  /** Set when the producer, or a shutdown, has ended the request. */
  #ending: { readonly end: RequestEnd; readonly done: PromiseWithResolvers<void> } | undefined
  /** Set while the producer is disconnected and may return. */
  #suspended: { readonly end: RequestEnd; readonly untilMs: number } | undefined
  #uses: number
  /** Whether the loss of the producer still has to be stored in Redis. */
  #lossIsNew = false
  /**
   * The end of a request whose producer did not return in time. Redis stores it, unless the producer has
   * continued at another broker.
   */
  #overdue: RequestEnd | undefined
  #unstoredEnd: RequestEnd | undefined

  constructor(options: LocalRequestOptions) {
    const { setup, entry, header, request, progress } = options
    const { clock, budget } = setup
    const { openedMs, limits } = entry
    this.entry = entry
    this.ring = options.ring ?? new Ring({ header, openedMs, limits, clock, budget })
    this.readers = new RemoteReaders(setup, this.ring)
    this.#options = options
    this.#queue = new AppendQueue(setup, entry, this.ring)
    this.#command = new RepeatedCommand(setup)
    this.#writer = new Writer(request, this)
    this.#progress = progress
    this.#uses = options.uses
    this.ring.onRoom(() => this.#notifyRoom())
  }

  get writer(): Writer {
    return this.#writer
  }

  /** The progress after the last entry. */
  get progress(): StoredProgress {
    return this.#progress
  }

  get over(): boolean {
    return this.#over
  }

  /** The end of a request that cannot continue, if Redis may not have that end. */
  get unstoredEnd(): RequestEnd | undefined {
    return this.#unstoredEnd
  }

  /** Whether the producer is disconnected and may return. */
  get isLost(): boolean {
    return this.#suspended !== undefined
  }

  /** Whether the ring or the queue for Redis is full. */
  get mustWait(): boolean {
    const { budget } = this.#options.setup
    const share = Math.min(this.entry.limits.bytes, maxQueuedBytes, budget.share)
    return !this.#over && (this.ring.full || this.#queue.bytes > Math.max(minQueuedBytes, share))
  }

  /** Replaces the writer for a producer that continues here. Returns undefined if the request has ended. */
  resume(uses: number): Omit<ResumedRequest, 'uses'> | undefined {
    if (this.#over || this.#pendingEnd !== undefined) return undefined
    this.#suspended = undefined
    this.#lossIsNew = false
    this.#uses = uses
    this.#writer.notifyEnd({ how: 'continued' })
    this.#writer.close()
    const { header, request } = this.#options
    this.#writer = new Writer(request, this)
    return { writer: this.#writer, header, progress: this.#progress }
  }

  /** Only the current writer calls this. */
  append(bytes: Uint8Array, progress: StoredProgress | undefined): boolean {
    if (this.#over || this.#ending !== undefined) return true
    const receivedMs = this.#options.setup.clock.nowMs()
    this.#progress = progress ?? this.#progress
    this.#queue.push({ bytes, receivedMs, progress })
    this.ring.append(bytes, receivedMs)
    this.#schedule()
    return !this.mustWait
  }

  /** See `LogWriter.suspend`. */
  suspend(end: RequestEnd): void {
    this.#suspended = { end, untilMs: this.#options.setup.clock.monotonicMs() + this.entry.graceMs }
    this.#lossIsNew = true
    this.#schedule()
  }

  /** Resolves with false if the producer is connected, or has returned meanwhile. */
  async endLost(end: RequestEnd): Promise<boolean> {
    if (this.#suspended === undefined) return false
    const { promise, resolve } = Promise.withResolvers<WriterEnd>()
    this.#writer.onEnded(resolve)
    this.#overdue ??= end
    this.#schedule()
    return (await promise).how !== 'continued'
  }

  /** Resolves when Redis has the end; rejects with a `LogRejection` `unavailable`. */
  async finish(end: RequestEnd): Promise<void> {
    if (this.#ending === undefined) {
      if (this.#over) return
      this.#ending = { end, done: Promise.withResolvers() }
      this.ring.finish(end)
      this.#schedule()
    }
    await this.#ending.done.promise
  }

  /**
   * Ends the request because the broker shuts down, and notifies the producer. Never rejects, even if `close`
   * comes first.
   */
  async shutDown(end: RequestEnd): Promise<void> {
    if (this.#over) return
    const isFirst = this.#ending === undefined
    const done = this.finish(end)
    if (isFirst) this.#writer.notifyEnd(end)
    await done.catch(() => {})
  }

  /**
   * Ends the request here with the end that Redis has, whoever gave it. Returns the bytes that Redis stores.
   */
  applyEnd({ end }: StoredEnd): number {
    if (this.#over) return 0
    this.#release(end, end.how !== this.#ending?.end.how)
    return this.#queue.storedBytes + this.#options.header.length
  }

  /**
   * Closes a request that cannot continue and has no end in Redis. If the producer gave an end, it is stored
   * later, but only if Redis has all entries: no reader may take a truncated request for a complete one.
   */
  close(end: RequestEnd): void {
    if (this.#over) return
    this.#unstoredEnd = this.#queue.length === 0 ? (this.#ending?.end ?? end) : end
    const problem = this.#command.full ? outOfMemory : 'the log did not take the end of the request'
    this.#release(end, this.#ending === undefined, problem)
  }

  /** Ends the request here: the producer has continued at another broker, the new owner. */
  moved(): void {
    if (this.#over) return
    this.#release({ how: 'continued' }, true, 'the producer has continued in another call')
  }

  /** Starts the timeout again after a pause of the process, which may have an unread reply. */
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
    this.readers.dropSilent()
    this.#endIfOverdue()
    if (!this.#command.isOverdue) return
    this.close(this.#command.full ? outOfMemoryEnd : logUnavailableEnd)
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

  /**
   * Ends the request here; the ring may still have readers.
   *
   * @param isNew whether the producer is notified: it has not given this end itself
   * @param problem why Redis does not have the end that the producer gave
   */
  #release(end: WriterEnd, isNew: boolean, problem?: string): void {
    this.#over = true
    this.#command.cancel()
    this.#queue.clear()
    this.readers.clear()
    // Otherwise the ring would keep a reference to the call of the producer.
    this.ring.onRoom(() => {})
    if (end.how !== 'continued') this.ring.finish(end)
    if (isNew) this.#writer.notifyEnd(end)
    if (problem === undefined) this.#ending?.done.resolve()
    else this.#ending?.done.reject(new LogRejection('unavailable', problem))
    this.#writer.close()
  }

  #notifyRoom(): void {
    if (!this.mustWait) this.#writer.notifyRoom()
  }

  #schedule(): void {
    if (this.#sending || this.#over) return
    this.#sending = true
    this.#run()
  }

  async #run(): Promise<void> {
    // Collects the entries of this turn.
    await new Promise(setImmediate)
    try {
      await this.#sendAll()
    } catch {
      // A command is rejected only if the log was closed.
      this.close(logUnavailableEnd)
      return
    }
    this.#sending = false
    if (this.#queue.length > 0 || this.#lossIsNew || this.#pendingEnd !== undefined) this.#schedule()
  }

  /**
   * Sends the entries, then the end. The end is sent in the turn in which the queue is found empty, so that
   * no entry comes after it.
   */
  async #sendAll(): Promise<void> {
    while (this.#queue.length > 0 || this.#trimsNext) if (!(await this.#sendBatch())) return
    const end = this.#pendingEnd
    if (end === undefined) return await this.#sendLoss()
    const answer = await this.#command.send(() => endRequest(this.#options.setup, this.entry, end))
    if (answer !== undefined) this.#stop(answer)
  }

  /** Stores the loss of the producer behind all entries, so that other brokers learn of it. */
  async #sendLoss(): Promise<void> {
    if (!this.#lossIsNew) return
    this.#lossIsNew = false
    const { keys, commands } = this.#options.setup
    const { key, owner } = this.entry
    const [names, values] = [[keys.producer(key)], [owner, this.#uses]]
    const answer = await this.#command.send(() => commands.runScript(lostScript, names, values))
    if (String(answer) === 'moved') this.#stop('moved')
  }

  /** Resolves with true if Redis has taken the batch. */
  async #sendBatch(): Promise<boolean> {
    this.#trimsNext = false
    const answer = await this.#command.send(() => this.#queue.send())
    if (answer === 'ok') {
      this.#queue.acknowledge()
      this.#notifyRoom()
      return true
    }
    if (answer !== undefined)
      this.#stop(answer === 'missing' || answer === 'moved' ? answer : decodeEnd(answer))
    return false
  }

  #stop(answer: EndAnswer): void {
    if (answer === 'missing') this.close(dataLostEnd)
    else if (answer === 'moved') this.moved()
    else this.#options.apply(endedEntry(this.entry, answer, this.#options.setup.clock.nowMs()))
  }
}

const retryMs = 100

/** Repeats one command at a time until Redis accepts it. */
class RepeatedCommand {
  readonly #setup: RedisLogSetup
  /** Since when a reply is pending, in monotonic milliseconds. */
  #pendingSinceMs: number | undefined
  #full = false
  #cancelled = false

  constructor(setup: RedisLogSetup) {
    this.#setup = setup
  }

  /** Whether Redis was out of memory at the last command. */
  get full(): boolean {
    return this.#full
  }

  /** Whether Redis has not accepted the command within `unavailableMs`. */
  get isOverdue(): boolean {
    const { clock, timings } = this.#setup
    return (
      this.#pendingSinceMs !== undefined && clock.monotonicMs() - this.#pendingSinceMs > timings.unavailableMs
    )
  }

  /** Sends a command. Resolves with undefined after `cancel`. Rejects if the log is closed. */
  async send<T>(command: () => Promise<T>): Promise<T | undefined> {
    const { clock, commands } = this.#setup
    this.#pendingSinceMs = clock.monotonicMs()
    while (!this.#cancelled) {
      try {
        const reply = await command()
        this.#pendingSinceMs = undefined
        this.#full = false
        return this.#cancelled ? undefined : reply
      } catch (error) {
        this.#full = isOutOfMemory(error)
        if (commands.ready) await pause(retryMs)
        else await commands.whenReady()
      }
    }
    return undefined
  }

  /** Ignores the reply to the current command, and sends no more. */
  cancel(): void {
    this.#cancelled = true
  }

  /** Starts the timeout again after a pause of the process, which may have an unread reply. */
  extendDeadlineAfterStall(): void {
    if (this.#pendingSinceMs !== undefined) this.#pendingSinceMs = this.#setup.clock.monotonicMs()
  }
}
