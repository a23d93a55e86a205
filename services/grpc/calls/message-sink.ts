import { type MessageSink, sinkHighWaterBytes } from '../server.ts'
import { GrpcError } from '../status.ts'
import type { CallLifetime } from './call-lifetime.ts'
import type { CallWire } from './stream-call.ts'

type SinkWire = Pick<CallWire, 'sendMessage' | 'queuedBytes' | 'discardQueued'>
type SinkCall = Pick<CallLifetime, 'signal' | 'isOver' | 'cut' | 'reportDefect'>

/** The sink of one call. The methods that `MessageSink` does not have are for the call alone. */
export class OwnedSink implements MessageSink {
  readonly #wire: SinkWire
  readonly #call: SinkCall
  readonly #maxSendBytes: number
  #finished = false
  /** True from a `write` that has returned false until `onReady` is notified. */
  #full = false
  #notifyReady = () => {}
  #emptied: PromiseWithResolvers<void> | undefined

  constructor(wire: SinkWire, call: SinkCall, maxSendBytes: number) {
    this.#wire = wire
    this.#call = call
    this.#maxSendBytes = maxSendBytes
    call.signal.addEventListener('abort', () => {
      this.discard()
    })
  }

  write(message: Uint8Array): boolean {
    if (this.#finished || this.#call.isOver) return false
    if (message.length > this.#maxSendBytes) {
      this.#call.cut(tooLong(message.length, this.#maxSendBytes))
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
    if (this.#call.signal.aborted || this.queuedBytes === 0) return
    this.#emptied ??= Promise.withResolvers()
    await this.#emptied.promise
  }

  /** To be called when the connection has taken queued bytes. */
  taken(): void {
    const bytes = this.queuedBytes
    if (bytes === 0) this.#onEmpty()
    if (!this.#finished && this.#full && bytes <= sinkHighWaterBytes / 2) {
      this.#full = false
      try {
        this.#notifyReady()
      } catch (error) {
        this.#call.reportDefect(error)
      }
    }
  }

  /** Accepts no more messages. Resolves as `flush` does. */
  finish(): Promise<void> {
    this.#finished = true
    return this.flush()
  }

  #onEmpty(): void {
    this.#emptied?.resolve()
    this.#emptied = undefined
  }
}

export function tooLong(bytes: number, maxBytes: number): GrpcError {
  return new GrpcError('RESOURCE_EXHAUSTED', `the answer has ${bytes} bytes, at most ${maxBytes} are allowed`)
}
