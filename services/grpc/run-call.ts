import { systemClock } from '@tollway/chassis/clock.ts'
import { createRequestQueue } from './request-queue.ts'
import type { AnyMethod, Call, Metadata } from './server.ts'
import { GrpcError, statusCodes } from './status.ts'

/** What a transport gives to run one call. Nothing here throws, unless it is said. */
export interface CallWire {
  readonly metadata: Metadata
  readonly peer: string
  readonly deadlineMs: number | undefined
  /** Asks for the next message: `receive` or `halfClose` answers, once. Until then no other message is read. */
  read(): void
  /** Throws for metadata that cannot be sent. */
  sendHeaders(metadata: Metadata): void
  /** Sends empty headers before, if none were sent. Calls back when the connection has taken the message, or never. */
  sendMessage(bytes: Uint8Array, onTaken: () => void): void
  /** Ends the call. Throws, having sent nothing, for trailers that cannot be sent. */
  sendStatus(status: CallStatus): void
}

export interface CallStatus {
  readonly code: number
  readonly message: string
  readonly trailers: Metadata
}

export interface RunCallOptions {
  readonly maxSendBytes: number
  onDefect(path: string, error: unknown): void
  /** Called once, when the call is answered or lost, and the handler's work has ended. */
  onEnd(): void
}

/** A call that runs: what its transport tells it. All may come at any time; what comes too late is ignored. */
export interface RunningCall {
  receive(bytes: Uint8Array): void
  halfClose(): void
  /** Nobody listens any more. */
  disconnect(): void
  /** Answers with this error now, and lets the handler know. */
  cut(error: GrpcError): void
}

const longestTimerMs = 2 ** 31 - 1
const noMetadata: Metadata = new Map()

/** Runs one call of a method: this is where the contract of handlers is kept, for every transport alike. */
export function runCall(method: AnyMethod, wire: CallWire, options: RunCallOptions): RunningCall {
  const abort = new AbortController()
  const { signal } = abort
  const requests = createRequestQueue(wire.read, method.decode, refuse)
  const { call, trailers } = createCall(wire, signal)
  const timer = startDeadline(wire.deadlineMs, cut)
  let over = false
  let working = false

  function answer(status: CallStatus): void {
    if (over) return
    over = true
    clearTimeout(timer)
    requests.finish()
    try {
      wire.sendStatus(status)
    } catch (error) {
      options.onDefect(method.path, error)
      wire.sendStatus(internalError)
    }
  }

  function abandon(reason: GrpcError): void {
    over = true
    clearTimeout(timer)
    requests.fail(reason)
    abort.abort(reason)
    if (!working) options.onEnd()
  }

  function cut(error: GrpcError): void {
    if (over) return
    wire.sendStatus({ code: error.code, message: error.message, trailers: noMetadata })
    abandon(error)
  }

  /** A caller that broke the rules before any handler ran. */
  function refuse(error: GrpcError): void {
    if (!working) cut(error)
  }

  function fail(error: unknown): void {
    if (error instanceof GrpcError) {
      const merged = new Map([...trailers(), ...(error.trailers ?? [])])
      answer({ code: error.code, message: error.message, trailers: merged })
    } else if (!(signal.aborted && isAbortError(error))) {
      answer(internalError)
      options.onDefect(method.path, error)
    }
  }

  async function work(handler: () => Promise<void>): Promise<void> {
    working = true
    try {
      await handler()
      answer({ code: statusCodes.OK, message: '', trailers: trailers() })
    } catch (error) {
      fail(error)
    }
    working = false
    options.onEnd()
  }

  function encode(message: unknown): Uint8Array {
    const bytes = method.encode(message)
    if (bytes.length <= options.maxSendBytes) return bytes
    throw new GrpcError(
      'RESOURCE_EXHAUSTED',
      `the answer has ${bytes.length} bytes, at most ${options.maxSendBytes} are allowed`,
    )
  }

  function sendOnly(message: unknown): void {
    if (!over) call.sendMessage(encode(message), () => {})
  }

  async function sendEach(messages: AsyncIterable<unknown>): Promise<void> {
    const iterator = messages[Symbol.asyncIterator]()
    try {
      for (;;) {
        const next = await unlessAborted(signal, iterator.next())
        if (next.done) return
        const bytes = encode(next.value)
        await unlessAborted(signal, new Promise<void>(taken => call.sendMessage(bytes, taken)))
      }
    } catch (error) {
      await iterator.return?.()
      throw error
    }
  }

  if (method.kind === 'client-stream') {
    work(async () => sendOnly(await method.handle(requests.messages, call)))
  } else if (method.kind === 'bidi') {
    work(() => sendEach(method.handle(requests.messages, call)))
  } else {
    requests.single(request => {
      if (method.kind === 'unary') work(async () => sendOnly(await method.handle(request, call)))
      else work(() => sendEach(method.handle(request, call)))
    })
  }
  return {
    receive: requests.receive,
    halfClose: requests.halfClose,
    disconnect() {
      if (over) return
      const late = wire.deadlineMs !== undefined && systemClock.nowMs() >= wire.deadlineMs
      abandon(late ? deadlineExceeded() : new GrpcError('CANCELLED', 'the caller is gone'))
    },
    cut,
  }
}
