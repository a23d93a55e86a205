import { type Reservation, uncountedBytes } from '@tollway/chassis/memory-budget.ts'
import type { Stream } from '../http2/streams/stream.ts'
import { GrpcError } from '../status.ts'
import { atTurnEnd } from './at-turn-end.ts'
import { type CallContext, type CallHead, noMemoryLeft } from './call-context.ts'
import { MessageReader } from './message-reader.ts'
import { RequestTimeout } from './request-timeout.ts'
import type { StreamCall } from './stream-call.ts'

/**
 * Delivers one message of an HTTP/2 stream for each `read`. Unread messages keep their part of the
 * flow-control window, so a slow handler slows down its caller.
 */
export class RequestIntake {
  readonly #context: CallContext
  readonly #stream: Stream
  readonly #reader: MessageReader
  readonly #timeout: RequestTimeout
  readonly #takesOne: boolean
  #call: StreamCall | undefined
  #wanted = false
  #ended = false
  /** Received bytes that were not given back to the flow-control window. */
  #uncredited = 0
  /** The size of a method's only request, which counts as unfinished until the caller ends its side. */
  #takenBytes = 0
  #reservation: Reservation | undefined

  constructor(context: CallContext, { method, compression }: CallHead, stream: Stream) {
    this.#context = context
    this.#stream = stream
    this.#reader = new MessageReader(context.limits.maxReceiveBytes, compression)
    this.#timeout = new RequestTimeout(context, { cut: error => this.#cut(error) })
    this.#takesOne = method.kind === 'server-stream' || method.kind === 'server-sink'
  }

  start(call: StreamCall): void {
    this.#call = call
    this.#deliver()
  }

  /** Asks for one message, or for the end of the requests. */
  read(): void {
    this.#wanted = true
    this.#deliver()
  }

  /** The bytes are lent until the end of the turn of the event loop. */
  push(bytes: Buffer): void {
    this.#uncredited += bytes.length
    this.#reader.push(bytes)
    this.#deliver()
    if (this.#reader.lends) keepAtTurnEnd(this)
    else this.#count()
  }

  end(): void {
    this.#ended = true
    this.#deliver()
    this.#count()
  }

  /** Copies lent bytes that are unread, and counts them in the memory budget. */
  keep(): void {
    if (this.#reader.lends) this.#reader.keep()
    this.#count()
  }

  drop(): void {
    this.#reader.clear()
    this.#takenBytes = 0
    this.#reservation?.resize(0)
    this.#timeout.stop()
  }

  #cut(error: GrpcError): void {
    this.drop()
    this.#call?.cut(error)
  }

  #count(): void {
    if (this.#ended) this.#takenBytes = 0
    const bytes = this.#reader.ownBytes + this.#takenBytes
    // The timeout limits the caller: it does not run while the handler asks for no message.
    if (this.#wanted && !this.#ended && bytes > uncountedBytes) this.#timeout.start()
    else this.#timeout.stop()
    if (bytes > uncountedBytes)
      this.#reservation ??= this.#context.memory.reserve(() => this.#cut(noMemoryLeft()))
    this.#reservation?.resize(bytes)
  }

  #deliver(): void {
    const call = this.#call
    if (!call || !this.#wanted) return
    const message = this.#take(call)
    if (message) {
      this.#wanted = false
      if (this.#takesOne) this.#takenBytes += message.length
      call.receive(message)
    } else if (this.#ended) {
      this.#wanted = false
      if (this.#reader.heldBytes === 0) call.halfClose()
      else call.cut(new GrpcError('INTERNAL', 'the requests end within a message'))
    }
    this.#credit()
  }

  #take(call: StreamCall): Uint8Array | undefined {
    try {
      return this.#reader.take()
    } catch (error) {
      if (!(error instanceof GrpcError)) throw error
      this.#wanted = false
      call.cut(error)
      return undefined
    }
  }

  /**
   * Gives bytes back to the flow-control window: the bytes of the taken messages, or all bytes while the
   * handler waits for a message, which may be longer than the window.
   */
  #credit(): void {
    const used = this.#wanted ? this.#uncredited : Math.max(0, this.#uncredited - this.#reader.heldBytes)
    this.#uncredited -= used
    if (used > 0) this.#stream.credit(used)
  }
}

/**
 * Copies lent bytes at the end of the turn. By then, a handler that keeps reading has taken all messages of a
 * chunk without a copy.
 */
const keepAtTurnEnd = atTurnEnd<RequestIntake>(intake => intake.keep())
