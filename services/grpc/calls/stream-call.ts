import type { X509Certificate } from 'node:crypto'
import type { AnyMethod, Call, MessageSink, Metadata } from '../server.ts'
import { type GrpcError, statusCodes } from '../status.ts'
import { CallLifetime } from './call-lifetime.ts'
import { OwnedSink, tooLong } from './message-sink.ts'
import { createSingleInbox, createStreamInbox, type RequestInbox } from './request-inbox.ts'
import type { WireStatus } from './wire-metadata.ts'

/** The connection's side of a call. A function throws only where this is documented. */
export interface CallWire {
  readonly metadata: Metadata
  readonly peer: string
  readonly peerCertificate: X509Certificate | undefined
  readonly deadlineMs: number | undefined
  /** Asks for one message; `StreamCall.receive` or `halfClose` follows. */
  read(): void
  /** Sends the headers of the answer. Throws for invalid metadata, and if headers or a message were sent. */
  sendHeaders(metadata: Metadata): void
  /** Sends empty headers before the first message if none were sent. The bytes may change after the call. */
  sendMessage(bytes: Uint8Array): void
  /** Sends one message of these parts, which must never change. */
  sendParts(parts: readonly Uint8Array[]): void
  /** The sent bytes that the connection has not taken. `StreamCall.taken` is called when they decrease. */
  queuedBytes(): number
  /** Drops the queued bytes. */
  discardQueued(): void
  /** Ends the call. Throws for invalid trailers, before anything is sent. */
  sendStatus(status: WireStatus): void
}

interface StreamCallOptions {
  readonly maxSendBytes: number
  onDefect(path: string, error: unknown): void
  /** Called once, when the call is over and the handler has ended; never within the constructor. */
  onEnd(): void
}

/**
 * Receives, decodes, calls the handler, encodes and sends, over any transport. Events of the transport after
 * the end of the call are ignored.
 */
export class StreamCall extends CallLifetime implements Call {
  readonly metadata: Metadata
  readonly peer: string
  readonly peerCertificate: X509Certificate | undefined
  readonly #method: AnyMethod
  readonly #wire: CallWire
  readonly #options: StreamCallOptions
  readonly #inbox: RequestInbox
  #onTaken = () => {}

  constructor(method: AnyMethod, wire: CallWire, options: StreamCallOptions) {
    super(wire.deadlineMs)
    this.metadata = wire.metadata
    this.peer = wire.peer
    this.peerCertificate = wire.peerCertificate
    this.#method = method
    this.#wire = wire
    this.#options = options
    this.startDeadline()
    this.#inbox = this.#start(method)
  }

  receive(bytes: Uint8Array): void {
    this.#inbox.receive(bytes)
  }

  halfClose(): void {
    this.#inbox.halfClose()
  }

  /** To be called when the connection has taken queued bytes; never within `sendMessage`. */
  taken(): void {
    this.#onTaken()
  }

  sendHeaders(metadata: Metadata): void {
    this.#wire.sendHeaders(metadata)
  }

  protected sendStatus(status: WireStatus): void {
    this.#wire.sendStatus(status)
  }

  protected onDefect(error: unknown): void {
    this.#options.onDefect(this.#method.path, error)
  }

  protected onOver(reason: GrpcError | undefined): void {
    this.#inbox.close(reason)
  }

  protected onLeave(): void {
    this.#options.onEnd()
  }

  /** Calls the handler: at once for a stream of requests, otherwise when the only request has arrived. */
  #start(method: AnyMethod): RequestInbox {
    const { read } = this.#wire
    const decode = (bytes: Uint8Array): unknown => method.decode(bytes)
    if (method.kind === 'client-stream' || method.kind === 'bidi') {
      const inbox = createStreamInbox({ read, decode })
      void this.#work(async () => {
        if (method.kind === 'bidi') await this.#sendEach(method.handle(inbox.messages, this))
        else await this.#sendOnly(method.handle(inbox.messages, this))
      })
      return inbox
    }
    return createSingleInbox({
      read,
      decode,
      onRejected: error => this.cut(error),
      onRequest: request =>
        void this.#work(async () => {
          if (method.kind === 'unary') await this.#sendOnly(method.handle(request, this))
          else if (method.kind === 'server-stream') await this.#sendEach(method.handle(request, this))
          else await this.#sendPushed(sink => method.handle(request, this, sink))
        }),
    })
  }

  async #work(handle: () => Promise<void>): Promise<void> {
    this.workBegins()
    try {
      await handle()
      const { trailers } = this
      this.answer({ code: statusCodes.OK, message: '', ...(trailers && { trailers }) })
    } catch (error) {
      this.answerError(error)
    }
    this.workEnded()
  }

  async #sendOnly(answer: unknown): Promise<void> {
    const message = await answer
    if (!this.isOver) await this.#send(message)
  }

  async #sendEach(answers: AsyncIterable<unknown>): Promise<void> {
    const { signal } = this
    const iterator = answers[Symbol.asyncIterator]()
    try {
      for (;;) {
        const next = await unlessAborted(signal, iterator.next(), error => this.reportDefect(error))
        if (next.done) return
        await this.#send(next.value)
      }
    } catch (error) {
      await iterator.return?.()
      throw error
    }
  }

  async #sendPushed(handle: (sink: MessageSink) => Promise<void>): Promise<void> {
    const sink = new OwnedSink(this.#wire, this, this.#options.maxSendBytes)
    this.#onTaken = () => sink.taken()
    try {
      await handle(sink)
    } finally {
      await sink.finish()
    }
  }

  /** Resolves when the connection has taken the message; rejects with the reason of the signal. */
  async #send(message: unknown): Promise<void> {
    this.#encodeAndSend(message)
    if (this.#wire.queuedBytes() === 0) return
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#onTaken = () => {
      if (this.#wire.queuedBytes() === 0) resolve()
    }
    await unlessAborted(this.signal, promise)
  }

  #encodeAndSend(message: unknown): void {
    const { maxSendBytes } = this.#options
    const parts = this.#method.encodeParts?.(message)
    const bytes = parts === undefined ? this.#method.encode(message) : undefined
    const length = bytes?.length ?? parts?.reduce((sum, part) => sum + part.length, 0) ?? 0
    if (length > maxSendBytes) throw tooLong(length, maxSendBytes)
    if (bytes !== undefined) this.#wire.sendMessage(bytes)
    else if (parts !== undefined) this.#wire.sendParts(parts)
  }
}

/**
 * Settles like the promise, or rejects with the reason of the signal. `onLate` receives a later error. Unlike
 * with Promise.race, no listener stays on the signal.
 */
function unlessAborted<T>(
  signal: AbortSignal,
  promise: Promise<T>,
  onLate: (error: unknown) => void = () => {},
): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = () => reject(signal.reason)
    signal.addEventListener('abort', onAbort)
    promise.then(
      value => {
        signal.removeEventListener('abort', onAbort)
        resolve(value)
      },
      error => {
        signal.removeEventListener('abort', onAbort)
        if (signal.aborted) onLate(error)
        reject(error)
      },
    )
    if (signal.aborted) onAbort()
  })
}
