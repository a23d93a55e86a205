import type { Socket } from 'node:net'
import { ClosedStreams, endings } from './closed-streams.ts'
import type { ConnectionOptions, OpenStream } from './connection-options.ts'
import { FloodGauge } from './flood-gauge.ts'
import { ReceiveWindow } from './flow-control.ts'
import { FrameReader } from './frame-reader.ts'
import {
  ConnectionError,
  defaultWindowBytes,
  errorCodes,
  frameBytes,
  frameFlags,
  frameTypes,
  headersFrames,
  maxStreamId,
  maxWindowBytes,
  StreamError,
  wordBytes,
} from './frames.ts'
import { HeaderBlocks, type OpenBlock } from './header-blocks.ts'
import { dynamicTableBytes, type HeaderBlock } from './hpack-decoder.ts'
import { emptyTableUpdate } from './hpack-encoder.ts'
import { type Keepalive, startKeepalive } from './keepalive.ts'
import { Output } from './output.ts'
import {
  checkGoAway,
  checkPriority,
  dependsOnItself,
  priorityBytes,
  windowIncrement,
  withoutPadding,
} from './payload-checks.ts'
import { areTrailers, parseRequest } from './request.ts'
import { defaultPeerSettings, readSettings, settingsFrame } from './settings.ts'
import { Stream, type StreamHost } from './stream.ts'

/** What is remembered of a request's header block; undefined for a malformed request. */
type Opener = { readonly open: OpenStream; readonly contentLength: number | undefined } | undefined

/** What all streams together may send before we give back; given back as soon as it is received. */
const connectionWindowBytes = 1024 * 1024
/** SETTINGS, PING, and empty frames of DATA and CONTINUATION in a second, beyond which a peer is hostile. */
const maxControlFramesPerSecond = 10_000
/** Streams that a peer resets, or makes us reset, in a second. */
const maxResetsPerSecond = 10_000
/** How long a peer has to take our last frames and close its end. */
const lingerMs = 1000
/** A peer that takes longer to acknowledge the first GOAWAY loses the streams that it begins later. */
const drainRoundTripMs = 10_000

const drainPing = Buffer.from('drain...', 'latin1')
const keepalivePing = Buffer.from('alive?..', 'latin1')

/** One connection of an HTTP/2 server (RFC 9113), over TCP, a unix socket or TLS. */
export class Connection implements StreamHost {
  readonly output: Output
  readonly peer = defaultPeerSettings()
  sendWindow = defaultWindowBytes
  readonly waiting = new Set<Stream>()
  plainHeaders = true

  readonly #socket: Socket
  readonly #options: ConnectionOptions
  readonly #reader: FrameReader
  readonly #blocks: HeaderBlocks<Opener>
  readonly #streams = new Map<number, Stream>()
  readonly #closedStreams = new ClosedStreams()
  readonly #receiveWindow = new ReceiveWindow(connectionWindowBytes)
  readonly #controlFrames: FloodGauge
  readonly #resets: FloodGauge
  /** Streams that are open, and closed ones on which there is still work. */
  #places = 0
  #begun: Stream[] = []
  #openBlock: OpenBlock | undefined
  #settingsSeen = false
  #tableUpdateDue = false
  #lastStreamId = 0
  /** Streams beyond this are ignored: the peer knows that it may try them elsewhere (RFC 9113, 6.8). */
  #lastAcceptedId = maxStreamId
  #state: 'open' | 'draining' | 'drained' | 'ended' = 'open'
  readonly #keepalive: Keepalive
  #timer: NodeJS.Timeout | undefined

  constructor(socket: Socket, options: ConnectionOptions) {
    this.#socket = socket
    this.#options = options
    this.output = new Output(socket, () => this.pump())
    this.#reader = new FrameReader((type, flags, id, buffer, start, end) =>
      this.#onFrame(type, flags, id, buffer, start, end),
    )
    this.#blocks = new HeaderBlocks(options.maxHeaderListBytes, block => this.#toOpener(block))
    this.#controlFrames = new FloodGauge('control frames', maxControlFramesPerSecond, options.clock)
    this.#resets = new FloodGauge('resets', maxResetsPerSecond, options.clock)
    this.#keepalive = startKeepalive(options.keepaliveMs, {
      ask: () => this.writeFrame(frameTypes.PING, 0, 0, keepalivePing),
      giveUp: () => socket.destroy(),
    })
    socket.on('data', (chunk: Buffer) => this.#receive(chunk))
    socket.on('error', () => {})
    socket.once('close', () => this.#onSocketClosed())
    this.output.append(settingsFrame(options.maxConcurrentStreams, options.maxHeaderListBytes))
    const widen = connectionWindowBytes - defaultWindowBytes
    this.writeFrame(frameTypes.WINDOW_UPDATE, 0, 0, wordBytes(widen))
  }

  /**
   * Takes no more streams, in two steps, as RFC 9113 (6.8) has it: those that the peer sends before it knows
   * are still taken. When all have ended the connection is closed.
   */
  drain(): void {
    if (this.#state !== 'open') return
    this.#state = 'draining'
    this.#writeGoAway(maxStreamId, errorCodes.NO_ERROR, '')
    this.writeFrame(frameTypes.PING, 0, 0, drainPing)
    // A peer that has not even sent its SETTINGS has no stream on its way.
    if (this.#settingsSeen) this.#timer = setTimeout(() => this.#finishDrain(), drainRoundTripMs)
    else this.#finishDrain()
  }

  /** Sends what is there, and closes; after a moment also without the peer. */
  end(): void {
    if (this.#state === 'ended') return
    this.#state = 'ended'
    clearTimeout(this.#timer)
    this.output.flush()
    this.#socket.end()
    this.#socket.resume()
    this.#timer = setTimeout(() => this.#socket.destroy(), lingerMs)
  }

  destroy(): void {
    this.#socket.destroy()
  }

  pump(): void {
    for (let progress = true; progress; ) {
      progress = false
      for (const stream of this.waiting) progress = stream.sendQueued() || progress
    }
  }

  writeFrame(type: number, flags: number, streamId: number, payload: Uint8Array): void {
    this.output.append(frameBytes(type, flags, streamId, payload))
  }

  writeHeaders(streamId: number, block: Uint8Array, endStream: boolean): void {
    const whole = this.#tableUpdateDue ? Buffer.concat([emptyTableUpdate, block]) : block
    this.#tableUpdateDue = false
    this.plainHeaders = true
    const maxBytes = Math.min(this.peer.maxFrameBytes, maxHeadersFrameBytes)
    for (const frame of headersFrames(streamId, whole, endStream, maxBytes)) this.output.append(frame)
  }

  onClosed(stream: Stream, ending: number): void {
    this.#streams.delete(stream.id)
    this.#closedStreams.add(stream.id, ending)
    if (this.#state === 'drained') this.#endWhenIdle()
  }

  onReleased(): void {
    this.#places -= 1
  }

  #receive(chunk: Buffer): void {
    if (this.#state === 'ended') return
    this.#keepalive.heard()
    this.output.hold()
    try {
      this.#reader.read(chunk)
    } catch (error) {
      this.#fail(error)
    }
    if (this.#begun.length > 0) this.#tellTurnEnd()
    this.output.release()
  }

  #tellTurnEnd(): void {
    for (const stream of this.#begun) if (!stream.closed) stream.listener.onTurnEnd()
    this.#begun = []
  }

  #fail(error: unknown): void {
    if (error instanceof ConnectionError) {
      this.#writeGoAway(this.#lastStreamId, error.code, error.message)
    } else {
      this.#writeGoAway(this.#lastStreamId, errorCodes.INTERNAL_ERROR, '')
      this.#options.onDefect(error)
    }
    this.#loseStreams()
    this.end()
  }

  #onSocketClosed(): void {
    this.#state = 'ended'
    this.#keepalive.stop()
    clearTimeout(this.#timer)
    this.output.close()
    this.#loseStreams()
    this.#options.onClosed()
  }

  #loseStreams(): void {
    for (const stream of [...this.#streams.values()]) {
      stream.close(endings.BY_US)
      stream.listener.onReset()
    }
  }

  #onFrame(type: number, flags: number, id: number, buffer: Buffer, start: number, end: number): void {
    if (this.#state === 'ended') return
    if (!this.#settingsSeen && type !== frameTypes.SETTINGS) {
      throw new ConnectionError('PROTOCOL_ERROR', 'the first frame is not SETTINGS')
    }
    const open = this.#openBlock
    if (open && (type !== frameTypes.CONTINUATION || id !== open.streamId)) {
      throw new ConnectionError('PROTOCOL_ERROR', 'a header block is interrupted')
    }
    try {
      this.#dispatch(type, flags, id, buffer, start, end)
    } catch (error) {
      if (!(error instanceof StreamError)) throw error
      this.#failStream(error)
    }
  }

  #dispatch(type: number, flags: number, id: number, buffer: Buffer, start: number, end: number): void {
    switch (type) {
      case frameTypes.DATA:
        this.#onData(flags, id, buffer, start, end)
        break
      case frameTypes.HEADERS:
        this.#onHeaders(flags, id, buffer, start, end)
        break
      case frameTypes.CONTINUATION:
        this.#onContinuation(flags, buffer.subarray(start, end))
        break
      case frameTypes.PRIORITY:
        checkPriority(id, buffer, start, end)
        break
      case frameTypes.RST_STREAM:
        this.#onResetStream(id, end - start)
        break
      case frameTypes.SETTINGS:
        this.#onSettings(flags, id, buffer.subarray(start, end))
        break
      case frameTypes.PING:
        this.#onPing(flags, id, buffer.subarray(start, end))
        break
      case frameTypes.GOAWAY:
        checkGoAway(id, end - start)
        break
      case frameTypes.WINDOW_UPDATE:
        this.#onWindowUpdate(id, windowIncrement(buffer, start, end))
        break
      case frameTypes.PUSH_PROMISE:
        throw new ConnectionError('PROTOCOL_ERROR', 'PUSH_PROMISE from a client')
      default:
      // RFC 9113, 4.1: frames that nobody knows are ignored.
    }
  }

  #failStream({ streamId, code }: StreamError): void {
    this.#resets.count()
    const stream = this.#streams.get(streamId)
    if (stream) {
      stream.reset(code)
      stream.listener.onReset()
    } else {
      this.writeFrame(frameTypes.RST_STREAM, 0, streamId, wordBytes(code))
      this.#closedStreams.add(streamId, endings.BY_US)
    }
  }

  #onData(flags: number, id: number, buffer: Buffer, from: number, to: number): void {
    if (id === 0) throw new ConnectionError('PROTOCOL_ERROR', 'DATA of no stream')
    const bytes = to - from
    if (!this.#receiveWindow.take(bytes)) {
      throw new ConnectionError('FLOW_CONTROL_ERROR', "DATA exceeds the connection's window")
    }
    const increment = this.#receiveWindow.giveBack(bytes)
    if (increment > 0) this.writeFrame(frameTypes.WINDOW_UPDATE, 0, 0, wordBytes(increment))
    const endStream = (flags & frameFlags.END_STREAM) !== 0
    const { start, end } = withoutPadding(flags, buffer, from, to)
    if (start === end && !endStream) this.#controlFrames.count()
    const stream = this.#streams.get(id) ?? this.#closedStream(id)
    if (!stream) return
    if (stream.remoteEnded) throw new StreamError(id, 'STREAM_CLOSED', 'DATA after the end')
    if (!stream.receiveWindow.take(bytes)) {
      throw new StreamError(id, 'FLOW_CONTROL_ERROR', "DATA exceeds the stream's window")
    }
    stream.countBody(end - start, endStream)
    if (endStream) stream.remoteEnded = true
    if (bytes > end - start) stream.credit(bytes - (end - start))
    if (end > start) stream.listener.onData(buffer.subarray(start, end))
    if (endStream && !stream.closed) stream.listener.onEnd()
  }

  /** For a frame of a stream that is not open: undefined when it is to be ignored. */
  #closedStream(id: number): undefined {
    if (id > this.#lastAcceptedId) return undefined
    this.#refuseIdle(id)
    if (this.#closedStreams.endingOf(id) === endings.BY_US) return undefined
    throw new StreamError(id, 'STREAM_CLOSED', 'DATA of a closed stream')
  }

  /** RFC 9113, 5.1: on a stream that was not begun only HEADERS and PRIORITY may come. */
  #refuseIdle(id: number): void {
    if (id > this.#lastStreamId || id % 2 === 0) {
      throw new ConnectionError('PROTOCOL_ERROR', `stream ${id} was not begun`)
    }
  }

  #onHeaders(flags: number, id: number, buffer: Buffer, from: number, to: number): void {
    if (id % 2 === 0) throw new ConnectionError('PROTOCOL_ERROR', `HEADERS of stream ${id}`)
    let { start, end } = withoutPadding(flags, buffer, from, to)
    let ownParent = false
    if (flags & frameFlags.PRIORITY) {
      if (end - start < priorityBytes) throw new ConnectionError('FRAME_SIZE_ERROR', 'HEADERS are too short')
      ownParent = dependsOnItself(id, buffer, start)
      start += priorityBytes
    }
    const endStream = (flags & frameFlags.END_STREAM) !== 0
    if (flags & frameFlags.END_HEADERS) {
      this.#onHeaderBlock(id, endStream, ownParent, buffer, start, end)
      return
    }
    this.#openBlock = { streamId: id, endStream, ownParent, parts: [], bytes: 0 }
    this.#blocks.extend(this.#openBlock, buffer.subarray(start, end))
  }

  #onContinuation(flags: number, part: Buffer): void {
    const open = this.#openBlock
    if (!open) throw new ConnectionError('PROTOCOL_ERROR', 'CONTINUATION of nothing')
    if (part.length < smallContinuationBytes) this.#controlFrames.count()
    this.#blocks.extend(open, part)
    if (!(flags & frameFlags.END_HEADERS)) return
    this.#openBlock = undefined
    const { streamId, endStream, ownParent, parts, bytes } = open
    this.#onHeaderBlock(streamId, endStream, ownParent, Buffer.concat(parts), 0, bytes)
  }

  #onHeaderBlock(
    id: number,
    endStream: boolean,
    ownParent: boolean,
    buffer: Buffer,
    start: number,
    end: number,
  ): void {
    if (id <= this.#lastStreamId) {
      this.#onTrailers(id, endStream, this.#blocks.decode(buffer, start, end))
      return
    }
    const opener = this.#blocks.meaning(buffer, start, end)
    if (id > this.#lastAcceptedId) return
    this.#lastStreamId = id
    if (!opener || ownParent) throw new StreamError(id, 'PROTOCOL_ERROR', 'a malformed request')
    if (this.#places >= this.#options.maxConcurrentStreams) {
      throw new StreamError(id, 'REFUSED_STREAM', 'too many streams')
    }
    const stream = new Stream(id, this, endStream, opener.contentLength)
    stream.countBody(0, endStream)
    this.#places += 1
    this.#streams.set(id, stream)
    this.#begun.push(stream)
    stream.listener = opener.open(stream)
    if (endStream && !stream.closed) stream.listener.onEnd()
  }

  #toOpener(block: HeaderBlock): Opener {
    const request = parseRequest(block)
    return request && { open: this.#options.route(request), contentLength: request.contentLength }
  }

  #onTrailers(id: number, endStream: boolean, block: HeaderBlock): void {
    const stream = this.#streams.get(id)
    if (!stream) {
      const ending = this.#closedStreams.endingOf(id)
      if (ending === endings.BY_US) return
      if (ending === endings.BY_PEER) throw new ConnectionError('STREAM_CLOSED', `stream ${id} is closed`)
      throw new ConnectionError('PROTOCOL_ERROR', `stream ${id} is not newer than the last`)
    }
    if (stream.remoteEnded) throw new StreamError(id, 'STREAM_CLOSED', 'HEADERS after the end')
    if (!endStream || !areTrailers(block)) throw new StreamError(id, 'PROTOCOL_ERROR', 'malformed trailers')
    stream.countBody(0, true)
    stream.remoteEnded = true
    stream.listener.onEnd()
  }

  #onResetStream(id: number, bytes: number): void {
    if (bytes !== 4) throw new ConnectionError('FRAME_SIZE_ERROR', `RST_STREAM of ${bytes} bytes`)
    const stream = this.#streams.get(id)
    if (!stream) {
      if (id <= this.#lastAcceptedId) this.#refuseIdle(id)
      return
    }
    this.#resets.count()
    stream.close(endings.BY_PEER)
    stream.listener.onReset()
  }

  #onSettings(flags: number, id: number, payload: Buffer): void {
    if (id !== 0) throw new ConnectionError('PROTOCOL_ERROR', 'SETTINGS of a stream')
    if (flags & frameFlags.ACK) {
      if (payload.length > 0) throw new ConnectionError('FRAME_SIZE_ERROR', 'SETTINGS with ACK and a payload')
      if (!this.#settingsSeen) throw new ConnectionError('PROTOCOL_ERROR', 'the first frame acknowledges')
      return
    }
    this.#controlFrames.count()
    this.#settingsSeen = true
    this.#keepalive.established()
    const before = this.peer.initialWindowBytes
    readSettings(this.peer, payload)
    this.#widenStreams(this.peer.initialWindowBytes - before)
    if (this.peer.headerTableBytes < dynamicTableBytes) {
      this.#tableUpdateDue = true
      this.plainHeaders = false
    }
    this.writeFrame(frameTypes.SETTINGS, frameFlags.ACK, 0, noBytes)
    this.pump()
  }

  /** A changed initial window changes those of open streams, even to below zero (RFC 9113, 6.9.2). */
  #widenStreams(bytes: number): void {
    if (bytes === 0) return
    for (const stream of this.#streams.values()) {
      stream.sendWindow += bytes
      if (stream.sendWindow > maxWindowBytes) {
        throw new ConnectionError('FLOW_CONTROL_ERROR', 'INITIAL_WINDOW_SIZE makes a window too large')
      }
    }
  }

  #onPing(flags: number, id: number, payload: Buffer): void {
    if (id !== 0) throw new ConnectionError('PROTOCOL_ERROR', 'PING of a stream')
    if (payload.length !== 8) throw new ConnectionError('FRAME_SIZE_ERROR', `PING of ${payload.length} bytes`)
    if (!(flags & frameFlags.ACK)) {
      this.#controlFrames.count()
      this.writeFrame(frameTypes.PING, frameFlags.ACK, 0, payload)
    } else if (this.#state === 'draining' && payload.equals(drainPing)) {
      this.#finishDrain()
    }
  }

  /** The peer knows of the first GOAWAY: what it has begun until now is all. */
  #finishDrain(): void {
    clearTimeout(this.#timer)
    this.#state = 'drained'
    this.#lastAcceptedId = this.#lastStreamId
    this.#writeGoAway(this.#lastStreamId, errorCodes.NO_ERROR, '')
    this.#endWhenIdle()
  }

  #endWhenIdle(): void {
    if (this.#streams.size === 0) this.end()
  }

  #onWindowUpdate(id: number, increment: number): void {
    if (id === 0) {
      if (increment === 0) throw new ConnectionError('PROTOCOL_ERROR', 'WINDOW_UPDATE by 0')
      this.sendWindow += increment
      if (this.sendWindow > maxWindowBytes) {
        throw new ConnectionError('FLOW_CONTROL_ERROR', 'the window of the connection is too large')
      }
    } else {
      const stream = this.#streams.get(id)
      if (!stream) {
        if (id <= this.#lastAcceptedId) this.#refuseIdle(id)
        return
      }
      if (increment === 0) throw new StreamError(id, 'PROTOCOL_ERROR', 'WINDOW_UPDATE by 0')
      stream.sendWindow += increment
      if (stream.sendWindow > maxWindowBytes) {
        throw new StreamError(id, 'FLOW_CONTROL_ERROR', 'the window of the stream is too large')
      }
    }
    if (this.waiting.size > 0) this.pump()
  }

  #writeGoAway(lastStreamId: number, code: number, message: string): void {
    const head = wordBytes(lastStreamId, code)
    this.writeFrame(frameTypes.GOAWAY, 0, 0, Buffer.concat([head, Buffer.from(message)]))
  }
}

const noBytes = Buffer.alloc(0)
/** No HEADERS frame of ours is longer, whatever the peer takes. */
const maxHeadersFrameBytes = 16_384
/** CONTINUATION frames below this count as control frames: they carry next to nothing. */
const smallContinuationBytes = 64
