import {
  defaultWindowBytes,
  errorCodes,
  frameFlags,
  frameHeadBytes,
  frameTypes,
  maxWindowBytes,
  StreamError,
  wordBytes,
  writeFrameHead,
  writeWord,
} from '../frames/frames.ts'
import type { Output } from '../output.ts'
import type { PeerSettings } from '../settings.ts'
import { endings } from './closed-streams.ts'
import { ReceiveWindow, SendQueue } from './flow-control.ts'
import type { SendTurns } from './send-turns.ts'

/** The parts of a connection that a stream needs. */
export interface StreamHost {
  readonly output: Output
  readonly peer: PeerSettings
  /** The remaining send window of the connection. */
  readonly sendWindow: number
  /** The streams whose data waits for a window or for the socket. */
  readonly turns: SendTurns
  /** Called when a frame of DATA was sent. */
  onDataSent(bytes: number): void
  writeFrame(type: number, flags: number, streamId: number, payload: Uint8Array): void
  writeHeaders(streamId: number, block: Uint8Array, endStream: boolean): void
  /** True while header blocks may be sent as encoded in advance. */
  readonly plainHeaders: boolean
  /** Called when the stream is closed on the wire; `ending` is one of `endings`. */
  onClosed(stream: Stream, ending: number): void
  /** Called when the stream is closed and its work has ended: another stream may begin. */
  onReleased(): void
}

/** Receives the events of a stream. */
export interface StreamListener {
  /** Receives the bytes between `start` and `end`. The listener calls `credit` when it has used them. */
  onData(buffer: Buffer, start: number, end: number): void
  /** The peer has ended its side. */
  onEnd(): void
  /** Some of the queued bytes were sent. Never called within a call of the stream. */
  onTaken(): void
  /**
   * Nothing can be sent any more. `isCancelled` is true where the peer has cancelled the stream or has broken
   * its rules. Otherwise the connection to the peer is lost, here or behind a proxy.
   */
  onReset(isCancelled: boolean): void
  /** The whole chunk in which the stream began has been read. */
  onTurnEnd(): void
}

/**
 * Frames that are encoded in advance, for an answer with one message: `HEADERS`, and the trailers with
 * END_STREAM.
 */
export interface AnswerFrames {
  readonly headers: Buffer
  readonly trailers: Buffer
}

/** The prefix of each gRPC message: a flag and four bytes of length. */
export const messagePrefixBytes = 5
const streamIdOffset = 5

/**
 * One stream of a connection, for its listener. It is a class, like all objects that are created for each
 * call: methods of a prototype cost no memory for each stream, closures do.
 */
export class Stream {
  readonly id: number
  listener: StreamListener = ignoringListener
  /** Whether the peer has sent END_STREAM. */
  remoteEnded: boolean
  /** Whether nothing can be sent or received any more. */
  closed = false
  readonly receiveWindow = new ReceiveWindow(defaultWindowBytes)
  readonly #host: StreamHost
  #granted = 0
  /** The remaining bytes of the body, by its content-length. */
  #bodyLeft: number | undefined
  #released = false
  #queue: SendQueue | undefined
  /** Set when the stream is to end after the queued bytes, with or without trailers. */
  #ending: { readonly trailers: Uint8Array | undefined } | undefined

  constructor(id: number, host: StreamHost, remoteEnded: boolean, contentLength: number | undefined) {
    this.id = id
    this.#host = host
    this.remoteEnded = remoteEnded
    this.#bodyLeft = contentLength
  }

  /** The remaining send window of this stream; negative after the peer has reduced its initial window. */
  get sendWindow(): number {
    return this.#host.peer.initialWindowBytes + this.#granted
  }

  /**
   * The window that the peer has granted beyond the initial window of its settings, minus the sent bytes.
   * Storing this difference lets a change of that setting change the windows of all streams at once.
   */
  get granted(): number {
    return this.#granted
  }

  /** @throws StreamError FLOW_CONTROL_ERROR when the window exceeds the limit of RFC 9113 (6.9.1) */
  widen(bytes: number): void {
    this.#granted += bytes
    if (this.sendWindow > maxWindowBytes) {
      throw new StreamError(this.id, 'FLOW_CONTROL_ERROR', 'the window of the stream is too large')
    }
    this.#host.turns.onWidened(this)
  }

  /**
   * RFC 9113, 8.1.1: a body whose length differs from its content-length is malformed.
   *
   * @throws StreamError PROTOCOL_ERROR
   */
  countBody(bytes: number, endStream: boolean): void {
    if (this.#bodyLeft === undefined) return
    this.#bodyLeft -= bytes
    if (this.#bodyLeft < 0 || (endStream && this.#bodyLeft > 0)) {
      throw new StreamError(
        this.id,
        'PROTOCOL_ERROR',
        'the length of the body differs from its content-length',
      )
    }
  }

  /** Records that the listener has used `bytes` bytes, which the peer may send again. */
  credit(bytes: number): void {
    if (this.remoteEnded || this.closed) return
    const increment = this.receiveWindow.giveBack(bytes)
    if (increment > 0) this.#host.writeFrame(frameTypes.WINDOW_UPDATE, 0, this.id, wordBytes(increment))
  }

  sendHeaders(block: Uint8Array): void {
    if (!this.closed) this.#host.writeHeaders(this.id, block, false)
  }

  /** The bytes that were passed to be sent, and that the connection has not taken. */
  get queuedBytes(): number {
    return this.#queue?.bytes ?? 0
  }

  /** Sends bytes of the body after the queued ones. They must not change until they are sent. */
  sendData(bytes: Uint8Array): void {
    if (!this.closed) this.#enqueue([bytes])
  }

  /** Sends a gRPC message with its prefix. The caller may reuse the bytes afterwards. */
  sendMessage(message: Uint8Array): void {
    if (this.closed || this.#sendWhole(message)) return
    const framed = Buffer.allocUnsafe(messagePrefixBytes + message.length)
    writeMessage(framed, 0, message)
    this.#enqueue([framed])
  }

  /** Sends a gRPC message with its prefix. The message is the parts in order, which must never change. */
  sendParts(parts: readonly Uint8Array[]): void {
    if (this.closed) return
    const prefix = Buffer.alloc(messagePrefixBytes)
    writeWord(
      prefix,
      1,
      parts.reduce((sum, part) => sum + part.length, 0),
    )
    this.#enqueue([prefix, ...parts])
  }

  /** Drops the queued bytes, of which a part may already be sent. */
  discardQueued(): void {
    this.#queue?.clear()
    this.#host.turns.delete(this)
  }

  /** Ends the stream after the queued bytes. */
  end(trailers: Uint8Array | undefined): void {
    if (this.closed) return
    this.#ending = { trailers }
    if (!this.#queue || this.#queue.bytes === 0) this.#finish()
  }

  /** Ends the stream now, without the queued bytes. */
  endEarly(trailers: Uint8Array): void {
    this.discardQueued()
    this.end(trailers)
  }

  /**
   * Sends a complete gRPC answer at once, if it fits into a frame, the windows and the output. Otherwise
   * returns false without an effect.
   */
  sendAnswer(frames: AnswerFrames, message: Uint8Array): boolean {
    const host = this.#host
    const { output } = host
    const { headers, trailers } = frames
    const bytes = messagePrefixBytes + message.length
    const total = headers.length + frameHeadBytes + bytes + trailers.length
    if (bytes > host.sendWindow || bytes > this.sendWindow || bytes > host.peer.maxFrameBytes) return false
    if (output.room < total || !host.plainHeaders || this.closed) return false
    let offset = output.reserve(total)
    const { target } = output
    target.set(headers, offset)
    writeWord(target, offset + streamIdOffset, this.id)
    offset = writeFrameHead(target, offset + headers.length, bytes, frameTypes.DATA, 0, this.id)
    offset = writeMessage(target, offset, message)
    target.set(trailers, offset)
    writeWord(target, offset + streamIdOffset, this.id)
    this.#countSent(bytes)
    this.#endSent()
    return true
  }

  /**
   * Sends one frame of the queued bytes, if the windows and the output have room; then other streams have
   * their turn.
   */
  sendQueued(): void {
    const { turns } = this.#host
    turns.delete(this)
    const moved = this.#moveQueued()
    if (this.queuedBytes > 0) turns.add(this)
    else if (this.#ending) this.#finish()
    if (moved) this.listener.onTaken()
  }

  /**
   * Sends a message as one frame without queueing it: only if no bytes wait before it, and the windows and
   * the output have room for it.
   */
  #sendWhole(message: Uint8Array): boolean {
    const host = this.#host
    const bytes = messagePrefixBytes + message.length
    if (bytes > host.sendWindow || bytes > this.sendWindow || bytes > maxDataBytes) return false
    if (this.queuedBytes > 0 || host.output.room < frameHeadBytes + bytes) return false
    const start = host.output.reserve(frameHeadBytes + bytes)
    const { target } = host.output
    writeMessage(target, writeFrameHead(target, start, bytes, frameTypes.DATA, 0, this.id), message)
    this.#countSent(bytes)
    return true
  }

  #countSent(bytes: number): void {
    this.#granted -= bytes
    this.#host.onDataSent(bytes)
  }

  #enqueue(parts: readonly Uint8Array[]): void {
    this.#queue ??= new SendQueue()
    const first = this.#queue.bytes === 0
    for (const part of parts) this.#queue.push(part)
    while (first && this.#moveQueued());
    if (this.#queue.bytes > 0) this.#host.turns.add(this)
  }

  #moveQueued(): boolean {
    const host = this.#host
    const queue = this.#queue
    if (!queue) return false
    const bytes = Math.min(
      queue.bytes,
      host.sendWindow,
      this.sendWindow,
      host.peer.maxFrameBytes,
      maxDataBytes,
      host.output.room - frameHeadBytes,
    )
    if (bytes <= 0) return false
    const offset = host.output.reserve(frameHeadBytes + bytes)
    const { target } = host.output
    queue.moveTo(target, writeFrameHead(target, offset, bytes, frameTypes.DATA, 0, this.id), bytes)
    this.#countSent(bytes)
    return true
  }

  /** Resets the stream from this side and notifies the peer. The caller notifies the listener. */
  reset(code: number): void {
    if (this.closed) return
    this.#host.writeFrame(frameTypes.RST_STREAM, 0, this.id, wordBytes(code))
    this.close(endings.BY_US)
  }

  /** Closes the stream on the wire. */
  close(ending: number): void {
    if (this.closed) return
    this.closed = true
    if (this.#queue !== undefined) this.#host.turns.delete(this)
    this.#queue = undefined
    this.#host.onClosed(this, ending)
    if (this.#released) this.#host.onReleased()
  }

  /** Records that the work on the stream has ended. It counts until it is also closed. */
  release(): void {
    if (this.#released) return
    this.#released = true
    if (this.closed) this.#host.onReleased()
  }

  #finish(): void {
    const trailers = this.#ending?.trailers
    if (trailers) this.#host.writeHeaders(this.id, trailers, true)
    else this.#host.writeFrame(frameTypes.DATA, frameFlags.END_STREAM, this.id, noBytes)
    this.#endSent()
  }

  /** Asks a peer that still sends to stop, without an error (RFC 9113, 8.1). */
  #endSent(): void {
    if (this.remoteEnded) this.close(endings.BY_PEER)
    else this.reset(errorCodes.NO_ERROR)
  }
}

/** Writes a message with its prefix: not compressed, and its length. Returns the offset after it. */
function writeMessage(target: Buffer, offset: number, message: Uint8Array): number {
  target[offset] = 0
  writeWord(target, offset + 1, message.length)
  target.set(message, offset + messagePrefixBytes)
  return offset + messagePrefixBytes + message.length
}

/** The size of a frame of DATA is limited, so that streams take turns and the output has room. */
const maxDataBytes = 16_384
const noBytes = Buffer.alloc(0)

const ignoringListener: StreamListener = {
  onData() {},
  onEnd() {},
  onTaken() {},
  onReset() {},
  onTurnEnd() {},
}
