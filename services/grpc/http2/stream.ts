import { endings } from './closed-streams.ts'
import { ReceiveWindow, SendQueue } from './flow-control.ts'
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
} from './frames.ts'
import type { Output } from './output.ts'
import type { SendTurns } from './send-turns.ts'
import type { PeerSettings } from './settings.ts'

/** What a stream needs of its connection. */
export interface StreamHost {
  readonly output: Output
  readonly peer: PeerSettings
  /** What the peer still takes on the whole connection. */
  readonly sendWindow: number
  /** The streams whose data waits for a window or for the socket. */
  readonly turns: SendTurns
  /** A frame of DATA was sent. */
  onDataSent(bytes: number): void
  writeFrame(type: number, flags: number, streamId: number, payload: Uint8Array): void
  writeHeaders(streamId: number, block: Uint8Array, endStream: boolean): void
  /** True while header blocks may be sent as they were made ahead. */
  readonly plainHeaders: boolean
  /** The stream is over on the wire; one of `endings`. */
  onClosed(stream: Stream, ending: number): void
  /** The stream is over, and so is the work on it: its place is free. */
  onReleased(): void
}

/** Takes what comes on a stream. */
export interface StreamListener {
  /** What lies between is the listener's, which says by `credit` when it has used that many bytes. */
  onData(buffer: Buffer, start: number, end: number): void
  /** The peer has sent all. */
  onEnd(): void
  /** The connection has taken some of what was queued. Never told within a call of the stream. */
  onTaken(): void
  /** Reset, or the connection is lost: nothing can be sent any more. */
  onReset(): void
  /** All of the chunk in which the stream began has been read. */
  onTurnEnd(): void
}

/** Frames made ahead, for an answer of one message: `HEADERS`, and the trailers with END_STREAM. */
export interface AnswerFrames {
  readonly headers: Buffer
  readonly trailers: Buffer
}

/** What gRPC puts before each message: a flag and four bytes of length. */
export const messagePrefixBytes = 5
const streamIdOffset = 5

/**
 * One stream of a connection, for its listener. It is a class, as all that is made for each call: methods of
 * a prototype cost no memory for each stream, closures do.
 */
export class Stream {
  readonly id: number
  listener: StreamListener = ignoringListener
  /** The peer has sent END_STREAM. */
  remoteEnded: boolean
  /** Nothing can be sent or received any more. */
  closed = false
  readonly receiveWindow = new ReceiveWindow(defaultWindowBytes)
  readonly #host: StreamHost
  #granted = 0
  /** How much of the body that content-length promised is still to come. */
  #bodyLeft: number | undefined
  #released = false
  #queue: SendQueue | undefined
  /** Set when the stream ends after what is queued: by trailers, or without. */
  #ending: { readonly trailers: Uint8Array | undefined } | undefined

  constructor(id: number, host: StreamHost, remoteEnded: boolean, contentLength: number | undefined) {
    this.id = id
    this.#host = host
    this.remoteEnded = remoteEnded
    this.#bodyLeft = contentLength
  }

  /** What the peer still takes on this stream; below zero after it has made its initial window smaller. */
  get sendWindow(): number {
    return this.#host.peer.initialWindowBytes + this.#granted
  }

  /**
   * What the peer has granted beyond the initial window of its settings, less what was sent. The window is kept
   * as this difference, so that a change of that setting changes the windows of all streams at once.
   */
  get granted(): number {
    return this.#granted
  }

  /** @throws StreamError FLOW_CONTROL_ERROR when the window is larger than RFC 9113 (6.9.1) allows. */
  widen(bytes: number): void {
    this.#granted += bytes
    if (this.sendWindow > maxWindowBytes) {
      throw new StreamError(this.id, 'FLOW_CONTROL_ERROR', 'the window of the stream is too large')
    }
    this.#host.turns.onWidened(this)
  }

  /**
   * RFC 9113, 8.1.1: a body of another length than its content-length is malformed.
   *
   * @throws StreamError PROTOCOL_ERROR
   */
  countBody(bytes: number, endStream: boolean): void {
    if (this.#bodyLeft === undefined) return
    this.#bodyLeft -= bytes
    if (this.#bodyLeft < 0 || (endStream && this.#bodyLeft > 0)) {
      throw new StreamError(this.id, 'PROTOCOL_ERROR', 'the body has not the length that was promised')
    }
  }

  /** The listener has used that many bytes, and can take as many more. */
  credit(bytes: number): void {
    if (this.remoteEnded || this.closed) return
    const increment = this.receiveWindow.giveBack(bytes)
    if (increment > 0) this.#host.writeFrame(frameTypes.WINDOW_UPDATE, 0, this.id, wordBytes(increment))
  }

  sendHeaders(block: Uint8Array): void {
    if (!this.closed) this.#host.writeHeaders(this.id, block, false)
  }

  /** What was given to be sent, and is not taken by the connection. */
  get queuedBytes(): number {
    return this.#queue?.bytes ?? 0
  }

  /** Sends bytes of the body behind what is queued. They must not change until they are taken. */
  sendData(bytes: Uint8Array): void {
    if (!this.closed) this.#enqueue(bytes)
  }

  /** Sends a gRPC message, whose prefix is put before it. Its bytes are the caller's again afterwards. */
  sendMessage(message: Uint8Array): void {
    if (this.closed || this.#sendWhole(message)) return
    const framed = Buffer.allocUnsafe(messagePrefixBytes + message.length)
    writeMessage(framed, 0, message)
    this.#enqueue(framed)
  }

  /** Forgets what is queued, of which a part may be sent already. */
  discardQueued(): void {
    this.#queue?.clear()
    this.#host.turns.delete(this)
  }

  /** Ends the stream behind what is queued. */
  end(trailers: Uint8Array | undefined): void {
    if (this.closed) return
    this.#ending = { trailers }
    if (!this.#queue || this.#queue.bytes === 0) this.#finish()
  }

  /** Ends the stream now; what is queued is not sent. */
  endEarly(trailers: Uint8Array): void {
    this.discardQueued()
    this.end(trailers)
  }

  /**
   * A whole gRPC answer at once, when nothing hinders it: one that fits in a frame, the windows and the
   * output. Returns false, having done nothing, when something does.
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

  /** Sends one frame of what is queued, if windows and output take any; then it is the others' turn. */
  sendQueued(): void {
    const { turns } = this.#host
    turns.delete(this)
    const moved = this.#moveQueued()
    if (this.queuedBytes > 0) turns.add(this)
    else if (this.#ending) this.#finish()
    if (moved) this.listener.onTaken()
  }

  /**
   * A message as one frame, written where it goes out: when nothing waits before it, and the windows and the
   * output take it whole.
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

  #enqueue(bytes: Uint8Array): void {
    this.#queue ??= new SendQueue()
    const first = this.#queue.bytes === 0
    this.#queue.push(bytes)
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

  /** By us: the peer is told. The listener has to know already, or is told by the caller. */
  reset(code: number): void {
    if (this.closed) return
    this.#host.writeFrame(frameTypes.RST_STREAM, 0, this.id, wordBytes(code))
    this.close(endings.BY_US)
  }

  /** The stream is over on the wire. */
  close(ending: number): void {
    if (this.closed) return
    this.closed = true
    if (this.#queue !== undefined) this.#host.turns.delete(this)
    this.#queue = undefined
    this.#host.onClosed(this, ending)
    if (this.#released) this.#host.onReleased()
  }

  /** The work on the stream has ended: from now on it keeps no place once it is closed. */
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

  /** A peer that still sends is asked to stop, without an error (RFC 9113, 8.1). */
  #endSent(): void {
    if (this.remoteEnded) this.close(endings.BY_PEER)
    else this.reset(errorCodes.NO_ERROR)
  }
}

/** With its prefix: not compressed, and its length. Answers where the next byte goes. */
function writeMessage(target: Buffer, offset: number, message: Uint8Array): number {
  target[offset] = 0
  writeWord(target, offset + 1, message.length)
  target.set(message, offset + messagePrefixBytes)
  return offset + messagePrefixBytes + message.length
}

/** A frame of DATA has at most this much, so that streams take turns and the output has room. */
const maxDataBytes = 16_384
const noBytes = Buffer.alloc(0)

const ignoringListener: StreamListener = {
  onData() {},
  onEnd() {},
  onTaken() {},
  onReset() {},
  onTurnEnd() {},
}
