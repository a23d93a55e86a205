import type { LoggedRequest, LogWriter, RequestEnd, StoredProgress, WriterEnd } from './stream-log.ts'

/** The request of a writer, which passes the calls of the producer to it. */
export interface WritableRequest {
  /** Whether the producer must wait before it appends. */
  readonly mustWait: boolean
  append(bytes: Uint8Array, progress: StoredProgress | undefined): boolean
  suspend(end: RequestEnd): void
  finish(end: RequestEnd): Promise<void>
}

/** The writer of one call of a producer. The request ends it when another call continues the request. */
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

  /** Notifies the producer that the request has this end, or that another call has continued it. */
  notifyEnd(end: WriterEnd): void {
    this.#endedBy = end
    for (const listener of this.#listeners) listener(end)
    this.close()
  }

  /** Notifies a producer that waits: it may append again. */
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
