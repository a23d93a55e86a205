import { type MessageSink, sinkHighWaterBytes } from '../server.ts'
import { GrpcError } from '../status.ts'
import type { CallLifetime } from './call-lifetime.ts'
import type { CallWire } from './stream-call.ts'

/** What a sink uses of its call. */
interface SinkOptions {
  readonly wire: Pick<CallWire, 'sendMessage' | 'queuedBytes' | 'discardQueued'>
  readonly lifetime: Pick<CallLifetime, 'signal' | 'isOver' | 'cut' | 'reportDefect'>
  readonly maxSendBytes: number
}

/**
 * The sink of a call, with additional methods for the call. It is a class because every message of a stream
 * passes through it.
 */
export class OwnedSink implements MessageSink {
  readonly #wire: SinkOptions['wire']
  readonly #lifetime: SinkOptions['lifetime']
  readonly #maxSendBytes: number
  #finished = false
  /** True after a `write` has returned false, until the listener of `onReady` is called. */
  #full = false
  #notifyReady = () => {}
  #emptied: PromiseWithResolvers<void> | undefined

  constructor({ wire, lifetime, maxSendBytes }: SinkOptions) {
    this.#wire = wire
    this.#lifetime = lifetime
    this.#maxSendBytes = maxSendBytes
    lifetime.signal.addEventListener('abort', () => {
      this.discard()
    })
  }

  write(message: Uint8Array): boolean {
    if (this.#finished || this.#lifetime.isOver) return false
    if (message.length > this.#maxSendBytes) {
      this.#lifetime.cut(tooLong(message.length, this.#maxSendBytes))
      return false
    }
    this.#wire.sendMessage(message)
    this.#full = this.#wire.queuedBytes() >= sinkHighWaterBytes
    return !this.#full
  }

  onReady(listener: () => void): void {
    this.#notifyReady = listener
  }

  get queuedBytes(): number {
    return this.#wire.queuedBytes()
  }

  discard(): void {
    this.#wire.discardQueued()
    this.#onEmpty()
  }

  async flush(): Promise<void> {
    if (this.#lifetime.signal.aborted || this.queuedBytes === 0) return
    this.#emptied ??= Promise.withResolvers()
    await this.#emptied.promise
  }

  /** To be called when the connection has taken some of the queued bytes. */
  taken(): void {
    const bytes = this.queuedBytes
    if (bytes === 0) this.#onEmpty()
    if (!this.#finished && this.#full && bytes <= sinkHighWaterBytes / 2) {
      this.#full = false
      try {
        this.#notifyReady()
      } catch (error) {
        this.#lifetime.reportDefect(error)
      }
    }
  }

  /** Accepts no more messages. Resolves when all written messages were taken, or the call was aborted. */
  finish(): Promise<void> {
    this.#finished = true
    return this.flush()
  }

  #onEmpty(): void {
    this.#emptied?.resolve()
    this.#emptied = undefined
  }
}

/** Returns the error that answers a call whose answer message is too long. */
export function tooLong(bytes: number, maxBytes: number): GrpcError {
  return new GrpcError('RESOURCE_EXHAUSTED', `the answer has ${bytes} bytes, at most ${maxBytes} are allowed`)
}
