import type { X509Certificate } from 'node:crypto'
import type { AnyMethod, Call, MessageSink, Metadata } from '../server.ts'
import type { GrpcError } from '../status.ts'
import { type CallLifetime, type CallStatus, createCallLifetime } from './call-lifetime.ts'
import { OwnedSink, tooLong } from './message-sink.ts'
import { createSingleInbox, createStreamInbox, type RequestInbox } from './request-inbox.ts'

/** The transport of one call. These functions do not throw, unless documented. */
export interface CallWire {
  readonly metadata: Metadata
  readonly peer: string
  readonly peerCertificate: X509Certificate | undefined
  readonly deadlineMs: number | undefined
  /** Asks for one message, which `receive` or `halfClose` answers. Without it nothing is read. */
  read(): void
  /** Throws for invalid metadata. */
  sendHeaders(metadata: Metadata): void
  /**
   * Sends a message after the waiting ones, with empty headers before it if none were sent. The caller may
   * reuse the bytes afterwards.
   */
  sendMessage(bytes: Uint8Array): void
  /** Sends one message whose bytes are these parts, which must never change. */
  sendParts(parts: readonly Uint8Array[]): void
  /** Returns the sent bytes that the connection has not taken; `taken` is called when they decrease. */
  queuedBytes(): number
  /** Drops the bytes that the connection has not taken. */
  discardQueued(): void
  /** Ends the call. Throws for invalid trailers, without sending anything. */
  sendStatus(status: CallStatus): void
}

export interface RunCallOptions {
  readonly maxSendBytes: number
  onDefect(path: string, error: unknown): void
  /** Called once, after `runCall` has returned: the call is over, and the handler has ended. */
  onEnd(): void
}

/** A running call, for its transport. All methods may be called at any time; late calls are ignored. */
export interface RunningCall {
  receive(bytes: Uint8Array): void
  halfClose(): void
  /** The connection has taken some of the queued bytes. Never called within `sendMessage`. */
  taken(): void
  /** The caller has cancelled the call, or its connection is lost. */
  disconnect(isCancelled: boolean): void
  /** Answers with this error now, and aborts the signal. */
  cut(error: GrpcError): void
}

/** Runs one call of a method. It implements the promises of the contract to handlers, for every transport. */
export function runCall(method: AnyMethod, wire: CallWire, options: RunCallOptions): RunningCall {
  const lifetime = createCallLifetime({
    deadlineMs: wire.deadlineMs,
    sendStatus: wire.sendStatus,
    onDefect: error => options.onDefect(method.path, error),
    onEnd: options.onEnd,
  })
  const outbox = createOutbox(method, wire, options.maxSendBytes, lifetime)
  const call: Call = {
    metadata: wire.metadata,
    peer: wire.peer,
    peerCertificate: wire.peerCertificate,
    deadlineMs: wire.deadlineMs,
    signal: lifetime.signal,
    sendHeaders: outbox.sendHeaders,
    setTrailers: lifetime.setTrailers,
  }
  const inbox = startHandler(method, wire, call, lifetime, outbox)
  lifetime.onOver(inbox.close)
  return {
    receive: inbox.receive,
    halfClose: inbox.halfClose,
    taken: outbox.taken,
    disconnect: lifetime.disconnect,
    cut: lifetime.cut,
  }
}

/** A handler of request streams runs from the start; one with a single request when that has arrived. */
function startHandler(
  method: AnyMethod,
  { read }: CallWire,
  call: Call,
  { work, cut }: CallLifetime,
  { sendOnly, sendEach, sendPushed }: Outbox,
): RequestInbox {
  const decode = (bytes: Uint8Array): unknown => method.decode(bytes)
  if (method.kind === 'client-stream' || method.kind === 'bidi') {
    const inbox = createStreamInbox({ read, decode })
    if (method.kind === 'bidi') work(() => sendEach(() => method.handle(inbox.messages, call)))
    else work(() => sendOnly(() => method.handle(inbox.messages, call)))
    return inbox
  }
  return createSingleInbox({
    read,
    decode,
    onRefused: cut,
    onRequest(request) {
      if (method.kind === 'unary') work(() => sendOnly(() => method.handle(request, call)))
      else if (method.kind === 'server-sink') {
        work(() => sendPushed(sink => method.handle(request, call, sink)))
      } else work(() => sendEach(() => method.handle(request, call)))
    },
  })
}

interface Outbox {
  sendHeaders(metadata: Metadata): void
  sendOnly(handle: () => unknown): Promise<void>
  sendEach(handle: () => AsyncIterable<unknown>): Promise<void>
  sendPushed(handle: (sink: MessageSink) => Promise<void>): Promise<void>
  /** The connection has taken some of the queued bytes. */
  taken(): void
}

function createOutbox(
  method: AnyMethod,
  wire: CallWire,
  maxSendBytes: number,
  lifetime: CallLifetime,
): Outbox {
  const { signal, reportDefect } = lifetime
  let headersSent = false
  let onTaken = () => {}

  function sendMessage(bytes: Uint8Array): void {
    headersSent = true
    wire.sendMessage(bytes)
  }

  function sendParts(parts: readonly Uint8Array[]): void {
    const length = parts.reduce((sum, part) => sum + part.length, 0)
    if (length > maxSendBytes) throw tooLong(length, maxSendBytes)
    headersSent = true
    wire.sendParts(parts)
  }

  function encodeAndSend(message: unknown): void {
    if (method.encodeParts) {
      sendParts(method.encodeParts(message))
      return
    }
    const bytes = method.encode(message)
    if (bytes.length > maxSendBytes) throw tooLong(bytes.length, maxSendBytes)
    sendMessage(bytes)
  }

  /**
   * Resolves when the connection has taken the message; throws the reason when the call is aborted before.
   */
  async function send(message: unknown): Promise<void> {
    encodeAndSend(message)
    if (wire.queuedBytes() === 0) return
    const { promise, resolve } = Promise.withResolvers<void>()
    onTaken = () => {
      if (wire.queuedBytes() === 0) resolve()
    }
    await unlessAborted(signal, promise)
  }

  return {
    sendHeaders(metadata) {
      if (headersSent) throw new Error('the headers are sent already')
      wire.sendHeaders(metadata)
      headersSent = true
    },
    async sendOnly(handle) {
      const message = await handle()
      if (!signal.aborted) await send(message)
    },
    async sendEach(handle) {
      const iterator = handle()[Symbol.asyncIterator]()
      try {
        for (;;) {
          const next = await unlessAborted(signal, iterator.next(), reportDefect)
          if (next.done) return
          await send(next.value)
        }
      } catch (error) {
        await iterator.return?.()
        throw error
      }
    },
    async sendPushed(handle) {
      const sink = new OwnedSink({
        wire: { sendMessage, queuedBytes: wire.queuedBytes, discardQueued: wire.discardQueued },
        lifetime,
        maxSendBytes,
      })
      onTaken = () => sink.taken()
      try {
        await handle(sink)
      } finally {
        await sink.finish()
      }
    },
    taken: () => onTaken(),
  }
}

/**
 * Settles like the promise, or rejects with the signal's reason as soon as it is aborted; `onLate` receives a
 * later rejection of the promise. Unlike Promise.race, this leaves no listener on a long-lived signal.
 */
function unlessAborted<T>(
  signal: AbortSignal,
  promise: Promise<T>,
  onLate: (error: unknown) => void = () => {},
): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = () => reject(signal.reason)
    signal.addEventListener('abort', onAbort)
    promise.then(
      value => {
        signal.removeEventListener('abort', onAbort)
        resolve(value)
      },
      error => {
        signal.removeEventListener('abort', onAbort)
        if (signal.aborted) onLate(error)
        reject(error)
      },
    )
    if (signal.aborted) onAbort()
  })
}
