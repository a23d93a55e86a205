import type { ServerConnection } from '../connection.ts'
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
import { endings } from './closed-streams.ts'
import { ReceiveWindow, SendQueue } from './flow-control.ts'

export interface StreamListener {
  /**
   * Receives a part of the body: the bytes in `buffer` from `start` to before `end`. The listener calls
   * `credit` when it has used them.
   */
  onData(buffer: Buffer, start: number, end: number): void
  /** Called when no more data follows. */
  onEnd(): void
  /** Called when queued bytes were sent, but never from within a method of the stream. */
  onTaken(): void
  /**
   * Called when nothing can be sent any more. `isCancelled` is true if the peer has cancelled the stream or
   * broken a rule of the protocol, and false if the connection was lost, here or behind a proxy.
   */
  onReset(isCancelled: boolean): void
  /** Called when all frames of the chunk in which the stream began have been processed. */
  onTurnEnd(): void
}

/**
 * Frames that were encoded in advance, without the number of the stream: HEADERS, and the trailers with
 * END_STREAM.
 */
export interface AnswerFrames {
  readonly headers: Buffer
  readonly trailers: Buffer
}

/** The size of the prefix of a gRPC message: a flag, and the length in four bytes. */
export const messagePrefixBytes = 5
const streamIdOffset = 5

/**
 * A class, because one is created for each call: the methods of a prototype take no memory for each stream,
 * while closures do.
 */
export class Stream {
  readonly id: number
  listener: StreamListener = ignoringListener
  /** Whether the peer has sent END_STREAM. */
  remoteEnded: boolean
  /** Whether nothing can be sent or received any more. */
  closed = false
  readonly receiveWindow = new ReceiveWindow(defaultWindowBytes)
  readonly #host: ServerConnection
  #granted = 0
  /** The bytes of the body that have not arrived yet; undefined without a content-length. */
  #bodyLeft: number | undefined
  #released = false
  #queue: SendQueue | undefined
  /** Set when the stream ends after the queued bytes. Without trailers it ends with an empty DATA frame. */
  #ending: { readonly trailers: Uint8Array | undefined } | undefined

  constructor(id: number, host: ServerConnection, remoteEnded: boolean, contentLength: number | undefined) {
    this.id = id
    this.#host = host
    this.remoteEnded = remoteEnded
    this.#bodyLeft = contentLength
  }

  /** The bytes that may be sent. Negative after the peer has reduced the initial window. */
  get sendWindow(): number {
    return this.#host.peer.initialWindowBytes + this.#granted
  }

  /**
   * The bytes that WINDOW_UPDATE frames have granted, minus the sent bytes. `sendWindow` adds the initial
   * window, so that a change of that setting applies to all streams at once.
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

  /** Allows the peer to send as many bytes again; see `ReceiveWindow`. */
  credit(bytes: number): void {
    if (this.remoteEnded || this.closed) return
    const increment = this.receiveWindow.giveBack(bytes)
    if (increment > 0) this.#host.writeFrame(frameTypes.WINDOW_UPDATE, 0, this.id, wordBytes(increment))
  }

  sendHeaders(block: Uint8Array): void {
    if (!this.closed) this.#host.writeHeaders(this.id, block, false)
  }

  /** The bytes that the output of the connection has not taken yet. */
  get queuedBytes(): number {
    return this.#queue?.bytes ?? 0
  }

  /** Sends the bytes after the queued ones. The caller must not change them until they are sent. */
  sendData(bytes: Uint8Array): void {
    if (!this.closed) this.#enqueue([bytes])
  }

  /** Sends a message, whose bytes may change after the call. */
  sendMessage(message: Uint8Array): void {
    if (this.closed || this.#sendWhole(message)) return
    const framed = Buffer.allocUnsafe(messagePrefixBytes + message.length)
    writeMessage(framed, 0, message)
    this.#enqueue([framed])
  }

  /** Sends one message of these parts, which are not copied, so they must never change. */
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

  end(trailers: Uint8Array | undefined): void {
    if (this.closed) return
    this.#ending = { trailers }
    if (!this.#queue || this.#queue.bytes === 0) this.#finish()
  }

  /** Ends the stream, and drops the queued bytes. */
  endEarly(trailers: Uint8Array): void {
    this.discardQueued()
    this.end(trailers)
  }

  /**
   * Ends the stream with a complete answer, if it fits into one DATA frame, the send windows and the output.
   * Otherwise returns false and does nothing.
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
   * Sends one frame, if the windows and the output have room. The stream then moves behind the other waiting
   * ones.
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
   * Sends the whole message. If earlier bytes are queued, or the message has no room, returns false and does
   * nothing.
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

  /** Sends RST_STREAM. The caller notifies the listener. */
  reset(code: number): void {
    if (this.closed) return
    this.#host.writeFrame(frameTypes.RST_STREAM, 0, this.id, wordBytes(code))
    this.close(endings.BY_US)
  }

  /** Drops the queued bytes, and sends nothing. */
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

  /** Closes the stream. If the peer still sends, RST_STREAM with NO_ERROR asks it to stop (RFC 9113, 8.1). */
  #endSent(): void {
    if (this.remoteEnded) this.close(endings.BY_PEER)
    else this.reset(errorCodes.NO_ERROR)
  }
}

/** Writes an uncompressed message. Returns the offset behind it. */
function writeMessage(target: Buffer, offset: number, message: Uint8Array): number {
  target[offset] = 0
  writeWord(target, offset + 1, message.length)
  target.set(message, offset + messagePrefixBytes)
  return offset + messagePrefixBytes + message.length
}

/** The most bytes of a DATA frame: streams take turns, and a frame fits into the buffer of the output. */
const maxDataBytes = 16_384
const noBytes = Buffer.alloc(0)

const ignoringListener: StreamListener = {
  onData() {},
  onEnd() {},
  onTaken() {},
  onReset() {},
  onTurnEnd() {},
}
