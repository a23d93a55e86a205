import { onlyMessage } from '../calls/message-reader.ts'
import { GrpcError, type StatusName, statusCodes, statusName } from '../status.ts'
import { FrameReader } from './frames/frame-reader.ts'
import { frameTypes } from './frames/frames.ts'
import { HeaderFrames } from './frames/header-frames.ts'
import { withoutPadding } from './frames/payload-checks.ts'
import { HpackDecoder } from './hpack/hpack-decoder.ts'

const maxHeaderListBytes = 64 * 1024
const maxMessageBytes = 4 * 1024 * 1024
/** Calls in flight beyond it are not read. */
const maxCalls = 10_000

/** A unary call of a connection, read from its bytes. Times are those of the chunks, in ms. */
export interface TappedCall {
  readonly request: Uint8Array
  readonly outcome: { readonly answer: Uint8Array } | { readonly error: GrpcError }
  readonly tookMs: number
}

interface OpenCall {
  readonly startedMs: number
  readonly request: Buffer[]
  readonly answer: Buffer[]
  bytes: number
}

export type Direction = 'request' | 'answer'

/**
 * Reads the unary calls of one method from the bytes of an HTTP/2 connection that two others hold: it sends
 * nothing and changes nothing. Each call is reported when its answer has ended, or when it is reset or its
 * connection is lost. Calls with compressed messages are not reported, and messages of errors stay
 * percent-encoded.
 */
export class CallTap {
  readonly #path: string
  readonly #onCall: (call: TappedCall) => void
  readonly #calls = new Map<number, OpenCall>()
  readonly #readers: Readonly<Record<Direction, FrameReader>>
  #nowMs = 0

  constructor(path: string, onCall: (call: TappedCall) => void) {
    this.#path = path
    this.#onCall = onCall
    this.#readers = { request: this.#reader('request'), answer: this.#reader('answer') }
  }

  /**
   * Reads the next bytes of one direction.
   *
   * @throws ConnectionError when the bytes are not HTTP/2; no later byte can be read then
   */
  read(direction: Direction, chunk: Buffer, atMs: number): void {
    this.#nowMs = atMs
    this.#readers[direction].read(chunk)
  }

  /** The connection is lost: reports the calls that have no answer as UNAVAILABLE. */
  end(atMs: number): void {
    this.#nowMs = atMs
    for (const id of [...this.#calls.keys()]) this.#fail(id, 'UNAVAILABLE', 'the connection was lost')
  }

  #reader(direction: Direction): FrameReader {
    const hpack = new HpackDecoder(maxHeaderListBytes)
    const headers = new HeaderFrames(maxHeaderListBytes, {
      onHeaderBlock: (id, _endStream, _ownParent, buffer, start, end) => {
        const { fields } = hpack.decode(buffer, start, end)
        if (direction === 'request') this.#onRequest(id, fields)
        else this.#onStatus(id, fields)
      },
      onSmallContinuation() {},
    })
    return new FrameReader(
      (type, flags, id, buffer, start, end) => {
        if (type === frameTypes.HEADERS) headers.onHeaders(flags, id, buffer, start, end)
        else if (type === frameTypes.CONTINUATION) headers.onContinuation(flags, buffer.subarray(start, end))
        else if (type === frameTypes.DATA) this.#onData(direction, flags, id, buffer, start, end)
        else if (type === frameTypes.RST_STREAM) this.#onReset(direction, id)
      },
      { preface: direction === 'request' },
    )
  }

  #onRequest(id: number, fields: readonly string[]): void {
    if (fieldOf(fields, ':path') !== this.#path || this.#calls.size >= maxCalls) return
    this.#calls.set(id, { startedMs: this.#nowMs, request: [], answer: [], bytes: 0 })
  }

  #onData(direction: Direction, flags: number, id: number, buffer: Buffer, from: number, to: number): void {
    const call = this.#calls.get(id)
    if (call === undefined) return
    const { start, end } = withoutPadding(flags, buffer, from, to)
    call.bytes += end - start
    if (call.bytes > 2 * maxMessageBytes) this.#calls.delete(id)
    else call[direction].push(buffer.subarray(start, end))
  }

  /** Headers of an answer, which may have its status, or trailers, which have it. */
  #onStatus(id: number, fields: readonly string[]): void {
    const call = this.#calls.get(id)
    const status = fieldOf(fields, 'grpc-status')
    if (call === undefined || status === undefined) return
    if (Number(status) !== statusCodes.OK) {
      this.#fail(id, statusName(Number(status)), fieldOf(fields, 'grpc-message') ?? '')
      return
    }
    this.#calls.delete(id)
    const [request, answer] = [messageOf(call.request), messageOf(call.answer)]
    if (request === undefined || answer === undefined) return
    this.#onCall({ request, outcome: { answer }, tookMs: this.#nowMs - call.startedMs })
  }

  #onReset(direction: Direction, id: number): void {
    if (direction === 'request') this.#fail(id, 'CANCELLED', 'the caller cancelled the call')
    else this.#fail(id, 'UNAVAILABLE', 'the server reset the call')
  }

  #fail(id: number, status: StatusName, message: string): void {
    const call = this.#calls.get(id)
    this.#calls.delete(id)
    const request = call && messageOf(call.request)
    if (call === undefined || request === undefined) return
    const outcome = { error: new GrpcError(status, message) }
    this.#onCall({ request, outcome, tookMs: this.#nowMs - call.startedMs })
  }
}

/** Names and values alternate. */
function fieldOf(fields: readonly string[], name: string): string | undefined {
  for (let index = 0; index < fields.length; index += 2) if (fields[index] === name) return fields[index + 1]
  return undefined
}

function messageOf(parts: readonly Buffer[]): Uint8Array | undefined {
  const bytes = Buffer.concat(parts)
  return onlyMessage(bytes, 0, bytes.length, maxMessageBytes)
}
