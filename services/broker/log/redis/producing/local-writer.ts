import type { LoggedRequest, Progress, RequestEnd, RequestWriter, WriterEnd } from '../../stream-log.ts'
import type { LocalRequest } from './local-request.ts'

/** The writer of one producer's call. The owner ends it when another call continues the request. */
export class LocalWriter implements RequestWriter {
  readonly request: LoggedRequest
  readonly #local: LocalRequest
  #listeners: ((end: WriterEnd) => void)[] = []
  #endedBy: WriterEnd | undefined
  #room: PromiseWithResolvers<void> | undefined

  constructor(request: LoggedRequest, local: LocalRequest) {
    this.request = request
    this.#local = local
  }

  get endedBy(): WriterEnd | undefined {
    return this.#endedBy
  }

  append(bytes: Uint8Array, progress?: Progress): boolean {
    return this.#endedBy !== undefined || this.#local.append(bytes, progress)
  }

  async ready(): Promise<void> {
    if (this.#endedBy !== undefined || !this.#local.isHeld) return
    this.#room ??= Promise.withResolvers()
    await this.#room.promise
  }

  onEnded(listener: (end: WriterEnd) => void): void {
    this.#listeners.push(listener)
    if (this.#endedBy !== undefined) listener(this.#endedBy)
  }

  suspend(end: RequestEnd): void {
    if (this.#endedBy === undefined) this.#local.suspend(end)
  }

  async end(end: RequestEnd): Promise<void> {
    if (this.#endedBy === undefined) await this.#local.finish(end)
  }

  /** Notifies the producer that its request has this end, or that another call has continued it. */
  notifyEnd(end: WriterEnd): void {
    this.#endedBy = end
    for (const listener of this.#listeners) listener(end)
  }

  /** Notifies the producer, if it waits, that it may append again. */
  notifyRoom(): void {
    this.#room?.resolve()
    this.#room = undefined
  }

  /** Releases the producer: no more notifications. */
  close(): void {
    this.notifyRoom()
    this.#listeners = []
  }
}
