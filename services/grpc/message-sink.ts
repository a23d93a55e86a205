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

/** The sink of a call, as its owner has it. A class, since each message of a stream passes it. */
export class OwnedSink implements MessageSink {
  readonly #wire: SinkOptions['wire']
  readonly #lifetime: SinkOptions['lifetime']
  readonly #maxSendBytes: number
  #finished = false
  /** A write has returned false, and nobody was told of room since. */
  #full = false
  #tellReady = () => {}
  #onEmpty = () => {}

  constructor({ wire, lifetime, maxSendBytes }: SinkOptions) {
    this.#wire = wire
    this.#lifetime = lifetime
    this.#maxSendBytes = maxSendBytes
    lifetime.signal.addEventListener('abort', () => {
      wire.discardQueued()
      this.#onEmpty()
    })
  }

  write(message: Uint8Array): boolean {
    if (this.#finished || this.#lifetime.signal.aborted) return false
    if (message.length > this.#maxSendBytes) {
      this.#lifetime.cut(tooLong(message.length, this.#maxSendBytes))
      return false
    }
    this.#wire.sendMessage(message)
    this.#full = this.#wire.queuedBytes() >= sinkHighWaterBytes
    return !this.#full
  }

  onReady(listener: () => void): void {
    this.#tellReady = listener
  }

  get queuedBytes(): number {
    return this.#wire.queuedBytes()
  }

  discard(): void {
    this.#wire.discardQueued()
  }

  /** The connection has taken some of what was queued. */
  taken(): void {
    const bytes = this.queuedBytes
    if (this.#finished) {
      if (bytes === 0) this.#onEmpty()
    } else if (this.#full && bytes <= sinkHighWaterBytes / 2) {
      this.#full = false
      try {
        this.#tellReady()
      } catch (error) {
        this.#lifetime.reportDefect(error)
      }
    }
  }

  /** Takes no more, and resolves when all that was written has been taken, or the call is cut. */
  async finish(): Promise<void> {
    this.#finished = true
    if (this.#lifetime.signal.aborted || this.queuedBytes === 0) return
    await new Promise<void>(resolve => {
      this.#onEmpty = resolve
    })
  }
}

/** The answer to a message that may not be sent. */
export function tooLong(bytes: number, maxBytes: number): GrpcError {
  return new GrpcError('RESOURCE_EXHAUSTED', `the answer has ${bytes} bytes, at most ${maxBytes} are allowed`)
}
