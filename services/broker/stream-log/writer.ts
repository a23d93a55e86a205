import type { LoggedRequest, LogWriter, RequestEnd, StoredProgress, WriterEnd } from './stream-log.ts'

/** A request whose producer is here; a writer passes the calls of the producer to it. */
export interface WritableRequest {
  /** Whether the producer must wait before it appends. */
  readonly mustWait: boolean
  append(bytes: Uint8Array, progress: StoredProgress | undefined): boolean
  suspend(end: RequestEnd): void
  finish(end: RequestEnd): Promise<void>
}

/**
 * The writer for one call of a producer. When another call continues the request, the request ends this
 * writer.
 */
export class Writer implements LogWriter {
  readonly request: LoggedRequest
  readonly #target: WritableRequest
  #listeners: ((end: WriterEnd) => void)[] = []
  #endedBy: WriterEnd | undefined
  #room: PromiseWithResolvers<void> | undefined

  constructor(request: LoggedRequest, target: WritableRequest) {
    this.request = request
    this.#target = target
  }

  get endedBy(): WriterEnd | undefined {
    return this.#endedBy
  }

  append(bytes: Uint8Array, progress?: StoredProgress): boolean {
    return this.#endedBy !== undefined || this.#target.append(bytes, progress)
  }

  async ready(): Promise<void> {
    if (this.#endedBy !== undefined || !this.#target.mustWait) return
    this.#room ??= Promise.withResolvers()
    await this.#room.promise
  }

  onEnded(listener: (end: WriterEnd) => void): void {
    this.#listeners.push(listener)
    if (this.#endedBy !== undefined) listener(this.#endedBy)
  }

  suspend(end: RequestEnd): void {
    if (this.#endedBy === undefined) this.#target.suspend(end)
  }

  async end(end: RequestEnd): Promise<void> {
    if (this.#endedBy === undefined) await this.#target.finish(end)
  }

  /**
   * Ends this writer and notifies the producer: the request has this end, or another call has continued it.
   */
  notifyEnd(end: WriterEnd): void {
    this.#endedBy = end
    for (const listener of this.#listeners) listener(end)
    this.close()
  }

  /** Lets the producer, if it waits, append again. */
  notifyRoom(): void {
    this.#room?.resolve()
    this.#room = undefined
  }

  /** Releases the producer, which is not notified any more. */
  close(): void {
    this.notifyRoom()
    this.#listeners = []
  }
}
