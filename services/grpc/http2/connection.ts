import type { Duplex } from 'node:stream'
import type { Clock } from '@tollway/chassis/clock.ts'
import type { Reservation } from '@tollway/chassis/memory-budget.ts'
import type { ConnectionOptions, OpenStream } from './connection-options.ts'
import { FrameReader } from './frames/frame-reader.ts'
import {
  ConnectionError,
  defaultWindowBytes,
  errorCodes,
  frameBytes,
  frameFlags,
  frameHeadBytes,
  frameTypes,
  headersFrames,
  maxStreamId,
  maxWindowBytes,
  StreamError,
  wordBytes,
} from './frames/frames.ts'
import { HeaderBlocks } from './frames/header-blocks.ts'
import { type HeaderBlockSink, HeaderFrames } from './frames/header-frames.ts'
import { checkGoAway, checkPriority, windowIncrement, withoutPadding } from './frames/payload-checks.ts'
import { dynamicTableBytes, type HeaderBlock } from './hpack/hpack-decoder.ts'
import { emptyTableUpdate } from './hpack/hpack-encoder.ts'
import { Output } from './output.ts'
import { areTrailers, parseRequest } from './request.ts'
import { defaultPeerSettings, readPeerSettings, settingsFrame } from './settings.ts'
import { endings } from './streams/closed-streams.ts'
import { ReceiveWindow } from './streams/flow-control.ts'
import { SendTurns } from './streams/send-turns.ts'
import { messagePrefixBytes, Stream } from './streams/stream.ts'
import { ConnectionStreams } from './streams/stream-table.ts'

/** What a header block opens; it is cached by the bytes of the block. Undefined for a malformed request. */
type Opener = { readonly open: OpenStream; readonly contentLength: number | undefined } | undefined

/**
 * The bytes that the peer may send on all streams before a WINDOW_UPDATE. The connection gives them back at
 * once, so that a stream whose handler does not read does not block other streams. The windows of streams and
 * the memory budget bound the stored bytes.
 */
const connectionWindowBytes = 256 * 1024
/**
 * The budget for frames that are not part of a call. Each frame costs 1, or more if it causes more work. A
 * well-behaved peer sends few of them, except in reply to DATA, which adds to its budget.
 */
const controlFrames = { burst: 2_000, perSecond: 200 }
/**
 * Added to the budget for each DATA frame that the peer receives: the peer may answer with a WINDOW_UPDATE
 * for the stream and the connection, and with a PING to measure the bandwidth, as grpc-go does. Each
 * `bytesOfOneEarned` of the frame add 1 more, since the peer may read a large frame in pieces. A DATA frame
 * shorter than a prefix adds nothing: only a peer that opens its windows by a few bytes causes many of these.
 */
const earnedByFrame = 4
const bytesOfOneEarned = 512
/** Added to the budget for each stream, which may come with a PRIORITY and a WINDOW_UPDATE. */
const earnedByStream = 2
/** SETTINGS and unwanted header blocks cost 1, and 1 more for every so many bytes. */
const settingsBytesOfOne = 48
const unwantedBlockBytesOfOne = 64
/**
 * The cost of a header list beyond the announced limit; every `longListBytesOfOne` of its block cost 1 more.
 * That is more than its stream adds to the budget, but a proxy whose callers send a few such lists stays
 * within it.
 */
const longListCost = earnedByStream + 2
const longListBytesOfOne = 1024
/** The budget for resets, by the peer or because of the peer's errors. */
const resets = { burst: 10_000, perSecond: 10_000 }
/** How long a peer has to receive the last frames and close its end. */
const lingerMs = 1000
/** How long to wait for the acknowledgement of the first GOAWAY. Later streams are ignored. */
const drainRoundTripMs = 10_000

const drainPing = Buffer.from('drain...', 'latin1')
const keepalivePing = Buffer.from('alive?..', 'latin1')

/** A server's side of RFC 9113, over TCP, a unix socket or TLS. */
export class ServerConnection implements HeaderBlockSink {
  readonly output: Output
  readonly peer = defaultPeerSettings()
  /** The bytes of DATA that may still be sent on all streams together. */
  sendWindow = defaultWindowBytes
  /** Streams with data wait here for room in a window or the socket. */
  readonly turns = new SendTurns()
  /** Whether headers that were encoded in advance (`AnswerFrames`) may be sent. */
  plainHeaders = true

  readonly #socket: Duplex
  readonly #options: ConnectionOptions
  readonly #reader: FrameReader
  readonly #headers: HeaderFrames
  readonly #blocks: HeaderBlocks<Opener>
  readonly #streams = new ConnectionStreams()
  readonly #blockMemory: Reservation
  readonly #receiveWindow = new ReceiveWindow(connectionWindowBytes)
  readonly #controlFrames: Budget
  readonly #resets: Budget
  /**
   * An upper bound of `Stream.granted` over all open streams, so that not every change of settings visits
   * all. It may be too high after a stream has closed.
   */
  #mostGranted = 0
  /** The streams that began in the current chunk. */
  #opened: Stream[] = []
  #settingsSeen = false
  #tableUpdateDue = false
  #state: 'open' | 'draining' | 'drained' | 'ended' = 'open'
  readonly #keepalive: Keepalive
  #timer: NodeJS.Timeout | undefined

  constructor(socket: Duplex, options: ConnectionOptions) {
    this.#socket = socket
    this.#options = options
    this.output = new Output(socket, () => this.pump())
    this.#reader = new FrameReader((type, flags, id, buffer, start, end) =>
      this.#onFrame(type, flags, id, buffer, start, end),
    )
    this.#headers = new HeaderFrames(options.maxHeaderListBytes, this)
    this.#blocks = new HeaderBlocks(
      options.maxHeaderListBytes,
      block => this.#toOpener(block),
      bytes => this.#controlFrames.spend(longListCost + bytes / longListBytesOfOne),
    )
    this.#blockMemory = options.memory.reserve(() => {
      this.#fail(new ConnectionError('ENHANCE_YOUR_CALM', 'no memory is left for a header block'))
    })
    this.#controlFrames = new Budget('control frames', controlFrames, options.clock)
    this.#resets = new Budget('resets', resets, options.clock)
    this.#keepalive = new Keepalive(
      options.keepaliveMs,
      () => this.writeFrame(frameTypes.PING, 0, 0, keepalivePing),
      () => socket.destroy(),
    )
    socket.on('data', (chunk: Buffer) => this.#receive(chunk))
    socket.on('error', () => {})
    socket.once('close', () => this.#onSocketClosed())
    this.output.append(settingsFrame(options.maxConcurrentStreams, options.maxHeaderListBytes))
    const widen = connectionWindowBytes - defaultWindowBytes
    this.writeFrame(frameTypes.WINDOW_UPDATE, 0, 0, wordBytes(widen))
  }

  /**
   * Accepts no more streams, in two steps (RFC 9113, 6.8): streams that the peer begins before it receives
   * the first GOAWAY are still accepted. Closes the connection when all streams have ended.
   */
  drain(): void {
    if (this.#state !== 'open') return
    this.#state = 'draining'
    this.#writeGoAway(maxStreamId, errorCodes.NO_ERROR, '')
    this.writeFrame(frameTypes.PING, 0, 0, drainPing)
    // Without SETTINGS, the peer cannot have begun a stream.
    if (this.#settingsSeen) this.#timer = setTimeout(() => this.#finishDrain(), drainRoundTripMs)
    else this.#finishDrain()
  }

  /**
   * Sends the gathered bytes. If the peer does not close its side within `lingerMs`, the socket is destroyed.
   */
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

  /** Sends queued data as far as the send windows and the socket have room. */
  pump(): void {
    // `sendQueued` moves a stream that still waits to the end of the set.
    for (const stream of this.turns.ready) {
      if (this.sendWindow <= 0 || this.output.room <= frameHeadBytes) return
      stream.sendQueued()
    }
  }

  /** Called with the size of a written DATA payload. */
  onDataSent(bytes: number): void {
    this.sendWindow -= bytes
    if (bytes >= messagePrefixBytes) this.#controlFrames.earn(earnedByFrame + bytes / bytesOfOneEarned)
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

  /**
   * To be called when both sides have ended the stream, it was reset, or it was lost; `ending` is one of
   * `endings`.
   */
  onClosed(stream: Stream, ending: number): void {
    this.#streams.close(stream.id, ending)
    if (this.#state === 'drained') this.#endWhenIdle()
  }

  /**
   * To be called when the handler of a closed stream has ended: the stream no longer counts as concurrent.
   */
  onReleased(): void {
    this.#streams.release()
  }

  #receive(chunk: Buffer): void {
    if (this.#state === 'ended') return
    this.#keepalive.onData()
    this.output.hold()
    try {
      this.#reader.read(chunk)
    } catch (error) {
      this.#fail(error)
    }
    this.#blockMemory.resize(this.#headers.openBytes)
    if (this.#opened.length > 0) this.#notifyTurnEnd()
    // Once for all frames of the chunk: many small WINDOW_UPDATEs together allow one large DATA frame.
    this.pump()
    this.output.release()
  }

  #notifyTurnEnd(): void {
    for (const stream of this.#opened) if (!stream.closed) stream.listener.onTurnEnd()
    this.#opened = []
  }

  #fail(error: unknown): void {
    if (error instanceof ConnectionError) {
      this.#writeGoAway(this.#streams.lastId, error.code, error.message)
    } else {
      this.#writeGoAway(this.#streams.lastId, errorCodes.INTERNAL_ERROR, '')
      this.#options.onDefect(error)
    }
    this.#loseStreams()
    this.end()
    // Further bytes of a hostile peer fill its own buffers.
    if (error instanceof ConnectionError && error.code === errorCodes.ENHANCE_YOUR_CALM) this.#socket.pause()
  }

  #onSocketClosed(): void {
    this.#state = 'ended'
    this.#keepalive.stop()
    this.#blockMemory.resize(0)
    clearTimeout(this.#timer)
    this.output.close()
    this.#loseStreams()
    this.#options.onClosed()
  }

  #loseStreams(): void {
    for (const stream of this.#streams.openStreams()) {
      stream.close(endings.BY_US)
      stream.listener.onReset(false)
    }
  }

  #onFrame(type: number, flags: number, id: number, buffer: Buffer, start: number, end: number): void {
    if (this.#state === 'ended') return
    if (!this.#settingsSeen && type !== frameTypes.SETTINGS) {
      throw new ConnectionError('PROTOCOL_ERROR', 'the first frame is not SETTINGS')
    }
    const openId = this.#headers.openStreamId
    if (openId !== undefined && (type !== frameTypes.CONTINUATION || id !== openId)) {
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
        this.#headers.onHeaders(flags, id, buffer, start, end)
        break
      case frameTypes.CONTINUATION:
        this.#headers.onContinuation(flags, buffer.subarray(start, end))
        break
      case frameTypes.PRIORITY:
        this.#controlFrames.spend(1)
        checkPriority(id, buffer, start, end)
        break
      case frameTypes.RST_STREAM:
        this.#onResetStream(id, buffer, start, end)
        break
      case frameTypes.SETTINGS:
        this.#onSettings(flags, id, buffer.subarray(start, end))
        break
      case frameTypes.PING:
        this.#onPing(flags, id, buffer.subarray(start, end))
        break
      case frameTypes.GOAWAY:
        this.#controlFrames.spend(1)
        checkGoAway(id, end - start)
        break
      case frameTypes.WINDOW_UPDATE:
        this.#onWindowUpdate(id, windowIncrement(buffer, start, end))
        break
      case frameTypes.PUSH_PROMISE:
        throw new ConnectionError('PROTOCOL_ERROR', 'PUSH_PROMISE from a client')
      default:
        // RFC 9113 (4.1): unknown types are ignored.
        this.#controlFrames.spend(1)
    }
  }

  #failStream({ streamId, code }: StreamError): void {
    this.#resets.spend(1)
    const stream = this.#streams.open(streamId)
    if (stream) {
      stream.reset(code)
      stream.listener.onReset(true)
    } else {
      this.writeFrame(frameTypes.RST_STREAM, 0, streamId, wordBytes(code))
      this.#streams.close(streamId, endings.BY_US)
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
    if (end - start < messagePrefixBytes && !endStream) this.#controlFrames.spend(1)
    const stream = this.#streams.forData(id)
    if (!stream) return
    if (stream.remoteEnded) throw new StreamError(id, 'STREAM_CLOSED', 'DATA after the end')
    if (!stream.receiveWindow.take(bytes)) {
      throw new StreamError(id, 'FLOW_CONTROL_ERROR', "DATA exceeds the stream's window")
    }
    stream.countBody(end - start, endStream)
    if (endStream) stream.remoteEnded = true
    if (bytes > end - start) stream.credit(bytes - (end - start))
    if (end > start) stream.listener.onData(buffer, start, end)
    if (endStream && !stream.closed) stream.listener.onEnd()
    if (endStream) this.output.writePart()
  }

  onHeaderBlock(
    id: number,
    endStream: boolean,
    ownParent: boolean,
    buffer: Buffer,
    start: number,
    end: number,
  ): void {
    if (id <= this.#streams.lastId) {
      this.#onTrailers(id, endStream, this.#blocks.decode(buffer, start, end), end - start)
      return
    }
    const opener = this.#blocks.meaning(buffer, start, end)
    if (!this.#streams.accepts(id)) {
      this.#spendForUnwantedBlock(end - start)
      return
    }
    this.#streams.use(id)
    if (!opener || ownParent) throw new StreamError(id, 'PROTOCOL_ERROR', 'a malformed request')
    if (this.#streams.unreleased >= this.#options.maxConcurrentStreams) {
      throw new StreamError(id, 'REFUSED_STREAM', 'too many streams')
    }
    const stream = new Stream(id, this, endStream, opener.contentLength)
    stream.countBody(0, endStream)
    this.#streams.add(stream)
    this.#opened.push(stream)
    this.#controlFrames.earn(earnedByStream)
    stream.listener = opener.open(stream)
    if (endStream && !stream.closed) stream.listener.onEnd()
  }

  onSmallContinuation(): void {
    this.#controlFrames.spend(1)
  }

  /** Charges a block of no open stream. It must be decoded too, since it may change the HPACK table. */
  #spendForUnwantedBlock(bytes: number): void {
    this.#controlFrames.spend(1 + bytes / unwantedBlockBytesOfOne)
  }

  #toOpener(block: HeaderBlock): Opener {
    const request = parseRequest(block)
    return request && { open: this.#options.route(request), contentLength: request.contentLength }
  }

  #onTrailers(id: number, endStream: boolean, block: HeaderBlock, blockBytes: number): void {
    const stream = this.#streams.forTrailers(id)
    if (!stream) {
      this.#spendForUnwantedBlock(blockBytes)
      return
    }
    if (stream.remoteEnded) throw new StreamError(id, 'STREAM_CLOSED', 'HEADERS after the end')
    if (!endStream || !areTrailers(block)) throw new StreamError(id, 'PROTOCOL_ERROR', 'malformed trailers')
    stream.countBody(0, true)
    stream.remoteEnded = true
    stream.listener.onEnd()
  }

  #onResetStream(id: number, buffer: Buffer, start: number, end: number): void {
    if (end - start !== 4) throw new ConnectionError('FRAME_SIZE_ERROR', `RST_STREAM of ${end - start} bytes`)
    const stream = this.#streams.forControl(id)
    if (!stream) {
      this.#controlFrames.spend(1)
      return
    }
    this.#resets.spend(1)
    stream.close(endings.BY_PEER)
    // Clients cancel with CANCEL; Envoy sends another code when it has lost the client.
    stream.listener.onReset(buffer.readUInt32BE(start) === errorCodes.CANCEL)
  }

  #onSettings(flags: number, id: number, payload: Buffer): void {
    if (id !== 0) throw new ConnectionError('PROTOCOL_ERROR', 'SETTINGS of a stream')
    this.#controlFrames.spend(1 + payload.length / settingsBytesOfOne)
    if (flags & frameFlags.ACK) {
      if (payload.length > 0) throw new ConnectionError('FRAME_SIZE_ERROR', 'SETTINGS with ACK and a payload')
      if (!this.#settingsSeen) throw new ConnectionError('PROTOCOL_ERROR', 'the first frame acknowledges')
      return
    }
    this.#settingsSeen = true
    this.#keepalive.onEstablished()
    const before = this.peer.initialWindowBytes
    readPeerSettings(this.peer, payload)
    if (this.peer.initialWindowBytes > before) this.#onWidenedStreams()
    if (this.peer.headerTableBytes < dynamicTableBytes) {
      this.#tableUpdateDue = true
      this.plainHeaders = false
    }
    this.writeFrame(frameTypes.SETTINGS, frameFlags.ACK, 0, noBytes)
  }

  /** Widens the windows of all open streams, as RFC 9113 (6.9.2) requires after a larger initial window. */
  #onWidenedStreams(): void {
    this.#controlFrames.spend(this.turns.onAllWidened())
    if (this.peer.initialWindowBytes + this.#mostGranted <= maxWindowBytes) return
    // `#mostGranted` may be the window of a stream that is closed by now.
    const streams = this.#streams.openStreams()
    this.#controlFrames.spend(streams.length)
    this.#mostGranted = Math.max(0, ...streams.map(({ granted }) => granted))
    if (this.peer.initialWindowBytes + this.#mostGranted > maxWindowBytes) {
      throw new ConnectionError('FLOW_CONTROL_ERROR', 'INITIAL_WINDOW_SIZE makes a window too large')
    }
  }

  #onPing(flags: number, id: number, payload: Buffer): void {
    if (id !== 0) throw new ConnectionError('PROTOCOL_ERROR', 'PING of a stream')
    if (payload.length !== 8) throw new ConnectionError('FRAME_SIZE_ERROR', `PING of ${payload.length} bytes`)
    this.#controlFrames.spend(1)
    if (!(flags & frameFlags.ACK)) {
      this.writeFrame(frameTypes.PING, frameFlags.ACK, 0, payload)
    } else if (this.#state === 'draining' && payload.equals(drainPing)) {
      this.#finishDrain()
    }
  }

  /** The peer has acknowledged the first GOAWAY, or its time is over: no further streams are accepted. */
  #finishDrain(): void {
    clearTimeout(this.#timer)
    this.#state = 'drained'
    this.#streams.acceptNoMore()
    this.#writeGoAway(this.#streams.lastId, errorCodes.NO_ERROR, '')
    this.#endWhenIdle()
  }

  #endWhenIdle(): void {
    if (this.#streams.isEmpty) this.end()
  }

  #onWindowUpdate(id: number, increment: number): void {
    this.#controlFrames.spend(1)
    if (id === 0) {
      if (increment === 0) throw new ConnectionError('PROTOCOL_ERROR', 'WINDOW_UPDATE by 0')
      this.sendWindow += increment
      if (this.sendWindow > maxWindowBytes) {
        throw new ConnectionError('FLOW_CONTROL_ERROR', 'the window of the connection is too large')
      }
      return
    }
    const stream = this.#streams.forControl(id)
    if (!stream) return
    if (increment === 0) throw new StreamError(id, 'PROTOCOL_ERROR', 'WINDOW_UPDATE by 0')
    stream.widen(increment)
    if (stream.granted > this.#mostGranted) this.#mostGranted = stream.granted
  }

  #writeGoAway(lastStreamId: number, code: number, message: string): void {
    const head = wordBytes(lastStreamId, code)
    this.writeFrame(frameTypes.GOAWAY, 0, 0, Buffer.concat([head, Buffer.from(message)]))
  }
}

const noBytes = Buffer.alloc(0)
/** The largest HEADERS frame that is sent, even if the peer accepts larger ones. */
const maxHeadersFrameBytes = 16_384

/**
 * Pings after an interval without received bytes, and disconnects after another one. Before that it lets the
 * sockets be read once more: after a suspension of the process, timers run before the waiting answers are
 * read.
 */
class Keepalive {
  readonly #ping: () => void
  readonly #disconnect: () => void
  readonly #timer: NodeJS.Timeout
  #lastCheck: NodeJS.Immediate | undefined
  #hasData = false
  #isPinged = false
  #isEstablished = false

  constructor(intervalMs: number, ping: () => void, disconnect: () => void) {
    this.#ping = ping
    this.#disconnect = disconnect
    this.#timer = setInterval(() => this.#check(), intervalMs)
  }

  /** To be called when bytes have arrived. */
  onData(): void {
    this.#hasData = true
  }

  /**
   * To be called when SETTINGS have arrived. A peer that sends none in the first interval is disconnected.
   */
  onEstablished(): void {
    this.#isEstablished = true
  }

  stop(): void {
    clearInterval(this.#timer)
    clearImmediate(this.#lastCheck)
  }

  #check(): void {
    if (this.#isSilent()) {
      this.#lastCheck = setImmediate(() => this.#isSilent() && this.#disconnect())
      return
    }
    this.#isPinged = !this.#hasData
    this.#hasData = false
    if (this.#isPinged) this.#ping()
  }

  #isSilent(): boolean {
    return !this.#isEstablished || (this.#isPinged && !this.#hasData)
  }
}

interface BudgetLimits {
  /** The budget at the start. Time refills it to at most this amount. */
  readonly burst: number
  /** The amount that each second adds, up to `burst`. */
  readonly perSecond: number
}

/** The most that calls can add to a budget: a peer must not save up for a flood. */
const maxEarned = 100_000

/**
 * Limits the work that a peer can cause without calls. Each piece of work costs an amount; time and calls add
 * to the budget.
 */
class Budget {
  readonly #what: string
  readonly #limits: BudgetLimits
  readonly #clock: Clock
  #left: number
  #refilledMs: number

  /** @param what names what is limited, for the message of the error */
  constructor(what: string, limits: BudgetLimits, clock: Clock) {
    this.#what = what
    this.#limits = limits
    this.#clock = clock
    this.#left = limits.burst
    this.#refilledMs = clock.monotonicMs()
  }

  earn(amount: number): void {
    if (this.#left < maxEarned) this.#left += amount
  }

  /**
   * Subtracts an amount. To save time, the clock is read only when nothing is left.
   *
   * @throws ConnectionError ENHANCE_YOUR_CALM when the peer has exceeded its budget
   */
  spend(amount: number): void {
    this.#left -= amount
    if (this.#left < 0) this.#refill()
  }

  #refill(): void {
    const { burst, perSecond } = this.#limits
    const nowMs = this.#clock.monotonicMs()
    this.#left = Math.min(burst, this.#left + ((nowMs - this.#refilledMs) * perSecond) / 1000)
    this.#refilledMs = nowMs
    if (this.#left < 0) throw new ConnectionError('ENHANCE_YOUR_CALM', `too many ${this.#what}`)
  }
}
