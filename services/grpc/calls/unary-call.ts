import type { X509Certificate } from 'node:crypto'
import { systemClock } from '@tollway/chassis/clock.ts'
import { type Reservation, uncountedBytes } from '@tollway/chassis/memory-budget.ts'
import { frameFlags, frameHeadBytes, frameTypes, writeFrameHead } from '../http2/frames/frames.ts'
import type { AnswerFrames, Stream, StreamListener } from '../http2/streams/stream.ts'
import type { AnyMethod, Call, Metadata } from '../server.ts'
import { GrpcError, statusCodes } from '../status.ts'
import { atTurnEnd } from './at-turn-end.ts'
import { type CallContext, type CallHead, noMemoryLeft } from './call-context.ts'
import { CallLifetime } from './call-lifetime.ts'
import { acceptEncoding, acceptFields } from './compression.ts'
import { MessageReader, onlyMessage } from './message-reader.ts'
import { tooLong } from './message-sink.ts'
import { RequestTimeout } from './request-timeout.ts'
import {
  encodeResponseHeaders,
  encodeTrailers,
  encodeTrailersOnly,
  type WireStatus,
} from './wire-metadata.ts'

const plainHeaders = encodeResponseHeaders()
const okTrailers = encodeTrailers({ code: statusCodes.OK, message: '' })
/** The frames of most answers: no metadata, no trailers, status OK. */
const okFrames: AnswerFrames = {
  headers: headersFrame(plainHeaders, frameFlags.END_HEADERS),
  trailers: headersFrame(okTrailers, frameFlags.END_HEADERS | frameFlags.END_STREAM),
}

function headersFrame(block: Buffer, flags: number): Buffer {
  const frame = Buffer.alloc(frameHeadBytes + block.length)
  frame.set(block, writeFrameHead(frame, 0, block.length, frameTypes.HEADERS, flags, 0))
  return frame
}

/**
 * A unary call. It is faster than `StreamCall`, which runs all other kinds: the request is read without a
 * copy, and an answer that the handler returns without a promise is sent at once.
 */
export class UnaryCall extends CallLifetime implements Call, StreamListener {
  readonly #context: CallContext
  readonly #head: CallHead
  readonly #stream: Stream
  #request: Uint8Array | undefined
  #reader: MessageReader | undefined
  #reservation: Reservation | undefined
  #requestTimeout: RequestTimeout | undefined
  #headersSent = false
  /** The trailers of an answer whose message waits to be sent. */
  #trailersDue: Buffer | undefined

  constructor(context: CallContext, head: CallHead, stream: Stream) {
    super(head.timeoutMs === undefined ? undefined : systemClock.monotonicMs() + head.timeoutMs)
    this.#context = context
    this.#head = head
    this.#stream = stream
    context.calls.add(this, false)
  }

  get metadata(): Metadata {
    return this.#head.metadata
  }

  get peer(): string {
    return this.#context.peer
  }

  get peerCertificate(): X509Certificate | undefined {
    return this.#context.peerCertificate
  }

  sendHeaders(metadata: Metadata): void {
    if (this.#headersSent) throw new Error('the headers are sent already')
    const block = encodeResponseHeaders(metadata, acceptFields(this.#head.compression))
    this.#headersSent = true
    if (!this.isOver) this.#stream.sendHeaders(block)
  }

  onData(buffer: Buffer, start: number, end: number): void {
    this.#stream.credit(end - start)
    if (this.isOver) return
    if (!this.#stream.remoteEnded) keepAtTurnEnd(this)
    if (!this.#reader && !this.#request) {
      this.#request = onlyMessage(buffer, start, end, this.#context.limits.maxReceiveBytes)
      if (this.#request) return
    }
    try {
      this.#readSlowly(buffer.subarray(start, end))
    } catch (error) {
      if (!(error instanceof GrpcError)) throw error
      this.cut(error)
    }
  }

  onEnd(): void {
    if (this.isOver) return
    if (!this.#request || (this.#reader && this.#reader.heldBytes > 0)) {
      const found = this.#reader?.heldBytes ? 'a part of one' : 'none'
      this.cut(new GrpcError('UNIMPLEMENTED', `the method takes one request, ${found} was sent`))
      return
    }
    const request = this.#request
    this.#dropRequest()
    this.#work(this.#head.method, request)
  }

  /** Copies an incomplete request to own memory, and counts it in the memory budget. */
  keepRequest(): void {
    if (this.isOver || this.#stream.remoteEnded) return
    const request = this.#request
    if (request && request.buffer.byteLength !== request.length) this.#request = new Uint8Array(request)
    const bytes = this.#head.metadataBytes + (request?.length ?? 0) + (this.#reader?.ownBytes ?? 0)
    if (bytes > uncountedBytes) this.#startCounting()
    this.#reservation?.resize(bytes)
  }

  #startCounting(): void {
    this.#reservation ??= this.#context.memory.reserve(() => this.cut(noMemoryLeft()))
    this.#requestTimeout ??= new RequestTimeout(this.#context, this)
    this.#requestTimeout.start()
  }

  /**
   * Ends the call when the connection has taken the message. From then on, neither the deadline nor a
   * cancellation changes the answer.
   */
  onTaken(): void {
    if (this.isOver || !this.#trailersDue || this.#stream.queuedBytes > 0) return
    this.#stream.end(this.#trailersDue)
    this.end(undefined)
  }

  onReset(isCancelled: boolean): void {
    this.disconnect(isCancelled)
  }

  /** A call that was answered at once never needs the timer of its deadline. */
  onTurnEnd(): void {
    if (this.isOver) return
    if (!this.#stream.remoteEnded) this.keepRequest()
    if (!this.isOver) this.startDeadline()
  }

  #readSlowly(bytes: Buffer): void {
    this.#reader ??= new MessageReader(this.#context.limits.maxReceiveBytes, this.#head.compression)
    const reader = this.#reader
    reader.push(bytes)
    for (let message = reader.take(); message; message = reader.take()) {
      if (this.#request) throw new GrpcError('UNIMPLEMENTED', 'the method takes one request, more were sent')
      this.#request = message
    }
    reader.keep()
  }

  #work(method: AnyMethod, bytes: Uint8Array): void {
    if (method.kind !== 'unary') return
    let request: unknown
    try {
      request = method.decode(bytes)
    } catch {
      this.cut(new GrpcError('INTERNAL', 'the request could not be decoded'))
      return
    }
    this.workBegins()
    try {
      const answer: unknown = method.handle(request, this)
      if (isPromiseLike(answer)) {
        answer.then(
          message => this.#settle(message),
          (error: unknown) => this.#fail(error),
        )
      } else this.#settle(answer)
    } catch (error) {
      this.#fail(error)
    }
  }

  #settle(message: unknown): void {
    try {
      if (!this.isOver) this.#answer(this.#encode(message))
    } catch (error) {
      this.#fail(error)
      return
    }
    this.workEnded()
  }

  #encode(message: unknown): Uint8Array {
    const bytes = this.#head.method.encode(message)
    const { maxSendBytes } = this.#context.limits
    if (bytes.length > maxSendBytes) throw tooLong(bytes.length, maxSendBytes)
    return bytes
  }

  #answer(message: Uint8Array): void {
    const { compression } = this.#head
    if (!this.#headersSent && compression !== 'identity') this.sendHeaders(new Map())
    if (!this.#headersSent && !this.trailers && this.#stream.sendAnswer(okFrames, message)) {
      this.end(undefined)
      return
    }
    const trailers = this.trailers
      ? encodeTrailers({ code: statusCodes.OK, message: '', trailers: this.trailers })
      : okTrailers
    if (!this.#headersSent) this.#stream.sendHeaders(plainHeaders)
    this.#headersSent = true
    this.#stream.sendMessage(message)
    this.#trailersDue = trailers
    this.onTaken()
  }

  #fail(error: unknown): void {
    this.answerError(error)
    this.workEnded()
  }

  protected sendStatus(status: WireStatus): void {
    const isUnimplemented = status.code === statusCodes.UNIMPLEMENTED
    this.#stream.endEarly(
      this.#headersSent
        ? encodeTrailers(status)
        : encodeTrailersOnly(status, isUnimplemented ? [acceptEncoding] : []),
    )
  }

  protected onDefect(error: unknown): void {
    this.#context.onDefect(this.#head.method.path, error)
  }

  protected onOver(): void {
    this.#dropRequest()
  }

  protected onLeave(): void {
    this.#context.calls.delete(this, false)
    this.#stream.release()
  }

  #dropRequest(): void {
    this.#request = undefined
    this.#reader = undefined
    this.#reservation?.resize(0)
    this.#requestTimeout?.stop()
  }
}

const keepAtTurnEnd = atTurnEnd<UnaryCall>(call => call.keepRequest())

function isPromiseLike(value: unknown): value is PromiseLike<unknown> {
  return typeof value === 'object' && value !== null && 'then' in value && typeof value.then === 'function'
}
