import type { Clock } from '@tollway/chassis/clock.ts'
import type { ByteBudget } from './byte-budget.ts'
import { hasEnded, messagesGone } from './refusals.ts'
import { type ResumeTokens, useToken } from './resume-tokens.ts'
import { Ring } from './ring.ts'
import {
  describeEnd,
  type LoggedRequest,
  type Opening,
  type Progress,
  type RequestEnd,
  type ResumedRequest,
  type Resumption,
  type RingCursor,
  type RingReader,
} from './stream-log.ts'
import { type WritableRequest, Writer } from './writer.ts'

export interface MemoryRequestOptions {
  readonly key: string
  readonly opening: Opening
  readonly clock: Clock
  readonly budget: ByteBudget
  /** Called once, at the end. */
  readonly onEnd: (request: MemoryRequest, end: RequestEnd) => void
}

/** The measured memory of a request besides its messages, including garbage that V8 collects late. */
const overheadBytes = 8 * 1024

/** A request of the log in memory, with its ring. */
export class MemoryRequest implements LoggedRequest, WritableRequest {
  readonly key: string
  readonly openedMs: number
  readonly #ring: Ring
  readonly #options: Pick<MemoryRequestOptions, 'clock' | 'onEnd'>
  #opening: Opening
  #tokens: ResumeTokens | undefined
  #progress: Progress
  /** Set while the producer is disconnected and may return. */
  #suspended: { readonly end: RequestEnd; readonly untilMs: number } | undefined
  /** Undefined after the end. */
  #writer: Writer | undefined
  #forgotten = false

  constructor({ key, opening, clock, budget, onEnd }: MemoryRequestOptions) {
    const { header, limits, resume, progress = {} } = opening
    this.key = key
    this.openedMs = clock.nowMs()
    this.#ring = new Ring({ header, openedMs: this.openedMs, limits, clock, budget })
    this.#options = { clock, onEnd }
    this.#opening = opening
    this.#tokens = resume && { tokenHash: resume.tokenHash, uses: 0 }
    this.#progress = progress
    this.#ring.onRoom(() => this.#writer?.notifyRoom())
  }

  get ids(): LoggedRequest['ids'] {
    return this.#opening.ids
  }

  get sourceServiceId(): string {
    return this.#opening.sourceServiceId
  }

  get route(): string {
    return this.#opening.route
  }

  get traceparent(): string {
    return this.#opening.traceparent
  }

  get ended(): boolean {
    return this.#ring.end !== undefined
  }

  get end(): RequestEnd | undefined {
    return this.#ring.end
  }

  get keepMs(): number {
    return this.#opening.limits.keepMs
  }

  /** The bytes that the request takes, with its messages. */
  get bytes(): number {
    return overheadBytes + this.#opening.header.length + this.#ring.bytes
  }

  /** The progress of the last message. */
  get progress(): Progress {
    return this.#progress
  }

  get bearerHash(): string {
    return this.#opening.bearerHash
  }

  /** The producer is disconnected, and may return. */
  get isLost(): boolean {
    return this.#suspended !== undefined
  }

  get isHeld(): boolean {
    return this.#ring.full
  }

  async read(reader: RingReader): Promise<RingCursor> {
    if (this.#forgotten) throw messagesGone()
    return this.#ring.read(reader)
  }

  /** Returns the writer of the producer's call; that of the previous call ends. */
  openWriter(): Writer {
    this.#suspended = undefined
    this.#writer?.notifyEnd({ how: 'continued' })
    this.#writer = new Writer(this, this)
    return this.#writer
  }

  /**
   * Continues the request in another call of the producer.
   *
   * @throws LogRefusal `spent` or `forged` for an invalid token, `ended` if the request has ended
   */
  resume(resumption: Resumption): ResumedRequest {
    const tokens = useToken(this.#tokens, resumption)
    this.#endIfOverdue()
    if (this.end !== undefined) throw hasEnded(describeEnd(this.end))
    this.#tokens = tokens
    const { header } = this.#opening
    return { writer: this.openWriter(), header, uses: tokens.uses, progress: this.#progress }
  }

  append(bytes: Uint8Array, progress: Progress | undefined): boolean {
    if (this.ended) return true
    if (progress !== undefined) this.#progress = progress
    if (this.#tokens?.previousHash !== undefined) {
      const { tokenHash, uses } = this.#tokens
      this.#tokens = { tokenHash, uses }
    }
    return this.#ring.append(bytes, this.#options.clock.nowMs())
  }

  suspend(end: RequestEnd): void {
    const untilMs = this.#options.clock.monotonicMs() + (this.#opening.resume?.graceMs ?? 0)
    this.#suspended = { end, untilMs }
  }

  /** The producer ends the request. */
  async finish(end: RequestEnd): Promise<void> {
    this.#end(end)
  }

  /** Ends the request, and notifies its producer. */
  close(end: RequestEnd): void {
    const writer = this.#writer
    this.#end(end)
    writer?.notifyEnd(end)
  }

  /** Keeps the ring within the budget, and ends the request if its producer has not returned in time. */
  sweep(): void {
    this.#ring.sweep()
    this.#endIfOverdue()
  }

  /** Releases the messages, except those that readers hold. */
  forget(): void {
    this.#forgotten = true
    this.#ring.release()
  }

  /** Ends the request if its producer has not returned within the grace. */
  #endIfOverdue(): void {
    if (this.#suspended === undefined) return
    const { end, untilMs } = this.#suspended
    if (this.#options.clock.monotonicMs() >= untilMs) this.close(end)
  }

  /**
   * Reports the end, and releases what only a running request needs: the producer's call and the progress.
   */
  #end(end: RequestEnd): void {
    if (this.ended) return
    this.#ring.finish(end)
    this.#options.onEnd(this, end)
    this.#ring.onRoom(ignore)
    this.#writer = undefined
    this.#suspended = undefined
    this.#progress = {}
    const { progress: _, ...opening } = this.#opening
    this.#opening = opening
  }
}

const ignore = () => {}
