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

/** The parts of a connection that its streams use. */
export interface StreamHost {
  readonly output: Output
  readonly peer: PeerSettings
  /** The bytes of DATA that may still be sent on the connection, over all streams. */
  readonly sendWindow: number
  /** The streams whose data waits until a window or the socket has room. */
  readonly turns: SendTurns
  /** Called when a DATA frame was written, with the size of its payload. */
  onDataSent(bytes: number): void
  writeFrame(type: number, flags: number, streamId: number, payload: Uint8Array): void
  writeHeaders(streamId: number, block: Uint8Array, endStream: boolean): void
  /** True while headers that were encoded in advance (`AnswerFrames`) may be sent. */
  readonly plainHeaders: boolean
  /**
   * Called when the stream was ended by both sides, was reset, or has lost its connection; `ending` is one of
   * `endings`.
   */
  onClosed(stream: Stream, ending: number): void
  /** Called when the stream is closed and its handler has ended: it no longer counts as concurrent. */
  onReleased(): void
}

export interface StreamListener {
  /**
   * Receives the bytes of the body in `buffer` from `start` to before `end`. When the listener has used them,
   * it calls `credit`.
   */
  onData(buffer: Buffer, start: number, end: number): void
  /** The peer has ended its side: no more data follows. */
  onEnd(): void
  /**
   * Some of the queued bytes were sent. Never called from within a method of the stream that the listener
   * calls.
   */
  onTaken(): void
  /**
   * The stream has ended early: nothing can be sent any more. `isCancelled` is true if the peer has cancelled
   * the stream or has broken a rule of the protocol, and false if the connection was lost, here or behind a
   * proxy.
   */
  onReset(isCancelled: boolean): void
  /** All frames of the socket's chunk in which the stream began have been processed. */
  onTurnEnd(): void
}

/**
 * The frames around an answer with one message, encoded in advance without the number of the stream: HEADERS,
 * and the trailers with END_STREAM.
 */
export interface AnswerFrames {
  readonly headers: Buffer
  readonly trailers: Buffer
}

/** The size of the prefix of each gRPC message: a flag, and the length in four bytes. */
export const messagePrefixBytes = 5
const streamIdOffset = 5

/**
 * One stream of a connection. Like all objects that are created for each call, it is an instance of a class:
 * methods of a prototype take no memory for each stream, closures do.
 */
export class Stream {
  readonly id: number
  listener: StreamListener = ignoringListener
  /** True after the peer has sent END_STREAM. */
  remoteEnded: boolean
  /** True when nothing can be sent or received any more. */
  closed = false
  readonly receiveWindow = new ReceiveWindow(defaultWindowBytes)
  readonly #host: StreamHost
  #granted = 0
  /** The bytes of the body that have not arrived yet; undefined without a content-length. */
  #bodyLeft: number | undefined
  #released = false
  #queue: SendQueue | undefined
  /**
   * Set when the stream is to end after the queued bytes. Without trailers it ends with an empty DATA frame.
   */
  #ending: { readonly trailers: Uint8Array | undefined } | undefined

  constructor(id: number, host: StreamHost, remoteEnded: boolean, contentLength: number | undefined) {
    this.id = id
    this.#host = host
    this.remoteEnded = remoteEnded
    this.#bodyLeft = contentLength
  }

  /**
   * The bytes of DATA that may still be sent on this stream; negative after the peer has reduced the initial
   * window.
   */
  get sendWindow(): number {
    return this.#host.peer.initialWindowBytes + this.#granted
  }

  /**
   * The bytes that WINDOW_UPDATE frames have granted, minus the sent bytes. The initial window of the peer's
   * settings is not in it but added by `sendWindow`, so that a change of that setting applies to all streams
   * at once.
   */
  get granted(): number {
    return this.#granted
  }

  /**
   * Adds the bytes of a WINDOW_UPDATE frame to the send window.
   *
   * @throws StreamError FLOW_CONTROL_ERROR when the window exceeds the limit of RFC 9113 (6.9.1)
   */
  widen(bytes: number): void {
    this.#granted += bytes
    if (this.sendWindow > maxWindowBytes) {
      throw new StreamError(this.id, 'FLOW_CONTROL_ERROR', 'the window of the stream is too large')
    }
    this.#host.turns.onWidened(this)
  }

  /**
   * Counts received bytes of the body.
   *
   * @throws StreamError PROTOCOL_ERROR when the length of the body differs from its content-length (RFC 9113,
   *   8.1.1)
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

  /**
   * Records that the listener has used `bytes` bytes: the peer may send as many again (see `ReceiveWindow`).
   */
  credit(bytes: number): void {
    if (this.remoteEnded || this.closed) return
    const increment = this.receiveWindow.giveBack(bytes)
    if (increment > 0) this.#host.writeFrame(frameTypes.WINDOW_UPDATE, 0, this.id, wordBytes(increment))
  }

  sendHeaders(block: Uint8Array): void {
    if (!this.closed) this.#host.writeHeaders(this.id, block, false)
  }

  /** The bytes to send that the output of the connection has not taken yet. */
  get queuedBytes(): number {
    return this.#queue?.bytes ?? 0
  }

  /** Sends bytes of the body after the queued ones. The caller must not change them until they are sent. */
  sendData(bytes: Uint8Array): void {
    if (!this.closed) this.#enqueue([bytes])
  }

  /** Sends a gRPC message with its prefix. The caller may change the bytes after the call. */
  sendMessage(message: Uint8Array): void {
    if (this.closed || this.#sendWhole(message)) return
    const framed = Buffer.allocUnsafe(messagePrefixBytes + message.length)
    writeMessage(framed, 0, message)
    this.#enqueue([framed])
  }

  /**
   * Sends a gRPC message with its prefix. The message consists of the parts in order. The parts are not
   * copied, so they must never change.
   */
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

  /** Drops the queued bytes. A message that was partly sent stays incomplete. */
  discardQueued(): void {
    this.#queue?.clear()
    this.#host.turns.delete(this)
  }

  /** Ends the stream after the queued bytes, with trailers if there are any. */
  end(trailers: Uint8Array | undefined): void {
    if (this.closed) return
    this.#ending = { trailers }
    if (!this.#queue || this.#queue.bytes === 0) this.#finish()
  }

  /** Drops the queued bytes, and ends the stream now. */
  endEarly(trailers: Uint8Array): void {
    this.discardQueued()
    this.end(trailers)
  }

  /**
   * Sends a complete gRPC answer and ends the stream, if the answer fits into one DATA frame, the send
   * windows and the output. Otherwise returns false and does nothing.
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
   * Sends one frame of the queued bytes, if the windows and the output have room. The stream then moves
   * behind the other waiting streams.
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
   * Sends a message as one frame. Returns false and does nothing if earlier bytes are queued, or the windows
   * or the output have no room for the whole message.
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

  /**
   * Resets the stream from this side, and sends RST_STREAM to the peer. The listener is not called; that is
   * the caller's duty.
   */
  reset(code: number): void {
    if (this.closed) return
    this.#host.writeFrame(frameTypes.RST_STREAM, 0, this.id, wordBytes(code))
    this.close(endings.BY_US)
  }

  /** Marks the stream as closed and drops the queued bytes. Sends nothing. */
  close(ending: number): void {
    if (this.closed) return
    this.closed = true
    if (this.#queue !== undefined) this.#host.turns.delete(this)
    this.#queue = undefined
    this.#host.onClosed(this, ending)
    if (this.#released) this.#host.onReleased()
  }

  /** Records that the handler has ended. The stream counts as concurrent until it is also closed. */
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

  /**
   * Closes the stream after its last frame. If the peer still sends, RST_STREAM with NO_ERROR asks it to stop
   * (RFC 9113, 8.1).
   */
  #endSent(): void {
    if (this.remoteEnded) this.close(endings.BY_PEER)
    else this.reset(errorCodes.NO_ERROR)
  }
}

/**
 * Writes a message with its prefix (not compressed, and the length). Returns the offset after the message.
 */
function writeMessage(target: Buffer, offset: number, message: Uint8Array): number {
  target[offset] = 0
  writeWord(target, offset + 1, message.length)
  target.set(message, offset + messagePrefixBytes)
  return offset + messagePrefixBytes + message.length
}

/**
 * The largest payload of a DATA frame. The limit lets streams take turns, and fits into the output's buffer.
 */
const maxDataBytes = 16_384
const noBytes = Buffer.alloc(0)

const ignoringListener: StreamListener = {
  onData() {},
  onEnd() {},
  onTaken() {},
  onReset() {},
  onTurnEnd() {},
}
