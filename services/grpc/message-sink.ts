import type { CallLifetime } from './call-lifetime.ts'
import type { CallWire } from './run-call.ts'
import { type MessageSink, sinkHighWaterBytes } from './server.ts'
import { GrpcError } from './status.ts'

/** What a sink needs of its call. */
export interface SinkOptions {
  readonly wire: Pick<CallWire, 'sendMessage' | 'queuedBytes' | 'discardQueued'>
  readonly lifetime: Pick<CallLifetime, 'signal' | 'cut' | 'reportDefect'>
  readonly maxSendBytes: number
}

export interface OwnedSink {
  readonly sink: MessageSink
  /** The connection has taken some of what was queued. */
  taken(): void
  /** Takes no more, and resolves when all that was written has been taken, or the call is cut. */
  finish(): Promise<void>
}

export function createMessageSink({ wire, lifetime, maxSendBytes }: SinkOptions): OwnedSink {
  const { signal } = lifetime
  let finished = false
  /** A write has returned false, and nobody was told of room since. */
  let full = false
  let tellReady = () => {}
  let onEmpty = () => {}
  signal.addEventListener('abort', () => {
    wire.discardQueued()
    onEmpty()
  })

  function write(message: Uint8Array): boolean {
    if (finished || signal.aborted) return false
    if (message.length > maxSendBytes) {
      lifetime.cut(tooLong(message.length, maxSendBytes))
      return false
    }
    wire.sendMessage(message)
    full = wire.queuedBytes() >= sinkHighWaterBytes
    return !full
  }

  function taken(): void {
    const bytes = wire.queuedBytes()
    if (finished) {
      if (bytes === 0) onEmpty()
    } else if (full && bytes <= sinkHighWaterBytes / 2) {
      full = false
      try {
        tellReady()
      } catch (error) {
        lifetime.reportDefect(error)
      }
    }
  }

  return {
    sink: {
      write,
      onReady(listener) {
        tellReady = listener
      },
      get queuedBytes() {
        return wire.queuedBytes()
      },
      discard: wire.discardQueued,
    },
    taken,
    async finish() {
      finished = true
      if (signal.aborted || wire.queuedBytes() === 0) return
      await new Promise<void>(resolve => {
        onEmpty = resolve
      })
    },
  }
}

/** The answer to a message that may not be sent. */
export function tooLong(bytes: number, maxBytes: number): GrpcError {
  return new GrpcError('RESOURCE_EXHAUSTED', `the answer has ${bytes} bytes, at most ${maxBytes} are allowed`)
}
