import { onlyMessage } from '../calls/message-reader.ts'
import { GrpcError, type StatusName, statusCodes, statusName } from '../status.ts'
import { FrameReader } from './frames/frame-reader.ts'
import { frameTypes } from './frames/frames.ts'
import { HeaderFrames } from './frames/header-frames.ts'
import { withoutPadding } from './frames/payload-checks.ts'
import { HpackDecoder } from './hpack/hpack-decoder.ts'

const maxHeaderListBytes = 64 * 1024
const maxMessageBytes = 4 * 1024 * 1024
/** The estimated memory of a call without its messages. */
const callBytes = 1024

/** Limits the calls in progress of all taps that share it; a call beyond it is not read. */
export class TapMemory {
  readonly #maxBytes: number
  #bytes = 0

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes
  }

  /** Returns false and takes nothing if the bytes exceed the limit. */
  take(bytes: number): boolean {
    if (this.#bytes + bytes > this.#maxBytes) return false
    this.#bytes += bytes
    return true
  }

  release(bytes: number): void {
    this.#bytes -= bytes
  }
}

/** `tookMs` is measured by the times that are passed to `CallTap.read`. */
export interface TappedCall {
  readonly request: Uint8Array
  readonly outcome: { readonly answer: Uint8Array } | { readonly error: GrpcError }
  readonly tookMs: number
}

interface OpenCall {
  readonly startedMs: number
  readonly request: Uint8Array[]
  readonly answer: Uint8Array[]
  /** The bytes that the call has taken from the memory. */
  bytes: number
}

interface TapOptions {
  /** `/package.Service/Method`, whose calls are read. */
  readonly path: string
  readonly memory: TapMemory
  onCall(call: TappedCall): void
  /**
   * Called for a call whose messages are compressed, malformed or too long, or for which no memory is left.
   */
  onSkipped(): void
}

export type Direction = 'request' | 'answer'

/**
 * Reads the unary calls of one method from the bytes of an HTTP/2 connection of two other parties, without
 * changing anything. A call is reported when its answer has ended, or when it was reset or lost. Messages of
 * errors stay percent-encoded.
 */
export class CallTap {
  readonly #options: TapOptions
  readonly #calls = new Map<number, OpenCall>()
  readonly #readers: Readonly<Record<Direction, FrameReader>>
  #nowMs = 0

  constructor(options: TapOptions) {
    this.#options = options
    this.#readers = { request: this.#reader('request'), answer: this.#reader('answer') }
  }

  /**
   * @param atMs when the bytes arrived
   * @throws ConnectionError when the bytes are not HTTP/2; `read` must not be called again then
   */
  read(direction: Direction, chunk: Buffer, atMs: number): void {
    this.#nowMs = atMs
    this.#readers[direction].read(chunk)
  }

  /** The connection was lost: reports the calls without an answer as UNAVAILABLE. */
  end(atMs: number): void {
    this.#nowMs = atMs
    for (const id of [...this.#calls.keys()]) this.#fail(id, 'UNAVAILABLE', 'the connection was lost')
  }

  /** To be called instead of `end` if some bytes were not read: drops the calls in progress. */
  abandon(): void {
    for (const id of [...this.#calls.keys()]) this.#close(id)
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
    const { path, memory, onSkipped } = this.#options
    if (findField(fields, ':path') !== path) return
    if (!memory.take(callBytes)) onSkipped()
    else this.#calls.set(id, { startedMs: this.#nowMs, request: [], answer: [], bytes: callBytes })
  }

  /** Undefined if no call has this number. */
  #close(id: number): OpenCall | undefined {
    const call = this.#calls.get(id)
    if (call === undefined) return undefined
    this.#calls.delete(id)
    this.#options.memory.release(call.bytes)
    return call
  }

  #onData(direction: Direction, flags: number, id: number, buffer: Buffer, from: number, to: number): void {
    const call = this.#calls.get(id)
    if (call === undefined) return
    const { start, end } = withoutPadding(flags, buffer, from, to)
    const length = end - start
    if (call.bytes + length > callBytes + 2 * maxMessageBytes || !this.#options.memory.take(length)) {
      this.#close(id)
      this.#options.onSkipped()
      return
    }
    call.bytes += length
    // A view would keep the whole chunk in memory.
    call[direction].push(Uint8Array.prototype.slice.call(buffer, start, end))
  }

  /** Reads the status from the trailers of an answer, or from the headers of an answer without messages. */
  #onStatus(id: number, fields: readonly string[]): void {
    const status = findField(fields, 'grpc-status')
    if (status === undefined) return
    if (Number(status) !== statusCodes.OK) {
      this.#fail(id, statusName(Number(status)), findField(fields, 'grpc-message') ?? '')
      return
    }
    const call = this.#close(id)
    if (call === undefined) return
    const answer = parseMessage(call.answer)
    this.#report(call, answer && { answer })
  }

  #onReset(direction: Direction, id: number): void {
    if (direction === 'request') this.#fail(id, 'CANCELLED', 'the caller cancelled the call')
    else this.#fail(id, 'UNAVAILABLE', 'the server reset the call')
  }

  #fail(id: number, status: StatusName, message: string): void {
    const call = this.#close(id)
    if (call !== undefined) this.#report(call, { error: new GrpcError(status, message) })
  }

  #report({ request: parts, startedMs }: OpenCall, outcome: TappedCall['outcome'] | undefined): void {
    const request = parseMessage(parts)
    if (request === undefined || outcome === undefined) this.#options.onSkipped()
    else this.#options.onCall({ request, outcome, tookMs: this.#nowMs - startedMs })
  }
}

/** Returns the first value of a field. Names and values alternate in `fields`. */
function findField(fields: readonly string[], name: string): string | undefined {
  for (let index = 0; index < fields.length; index += 2) if (fields[index] === name) return fields[index + 1]
  return undefined
}

function parseMessage(parts: readonly Uint8Array[]): Uint8Array | undefined {
  const bytes = Buffer.concat(parts)
  return onlyMessage(bytes, 0, bytes.length, maxMessageBytes)
}
