import type { Backoff } from '@tollway/chassis/backoff.ts'
import { type Clock, systemClock } from '@tollway/chassis/clock.ts'
import { WakeablePause } from '@tollway/chassis/wakeable-pause.ts'
import { GrpcError, statusCodes } from '../status.ts'

export type CallState =
  /** The call works, for the first time or after an interruption. */
  | { readonly kind: 'working' }
  /** The next call begins after `retryMs`; 0 means at once. */
  | {
      readonly kind: 'interrupted'
      readonly error: Error
      readonly retryMs: number
      /** Whether the previous call ended for the same reason and none has worked since. */
      readonly isRepeated: boolean
    }

export interface ReconnectingCallOptions {
  /**
   * Makes one call, which ends when the signal aborts. Resolves when the server ends it with OK; rejects with
   * any other end. `onWorking` resets the delays: the server has answered as expected.
   */
  readonly callOnce: (signal: AbortSignal, onWorking: () => void) => Promise<void>
  readonly backoff: Backoff
  /**
   * A call that lasts longer counts as working and resets the delays. By default the duration does not count.
   */
  readonly establishedMs?: number | undefined
  /**
   * If true, the next call begins at once after a call that lasted longer than `establishedMs` and the delay.
   */
  readonly reopensAtOnce?: boolean | undefined
  /**
   * The delay after UNIMPLEMENTED: the server has another version. Defaults to the next delay of the backoff.
   */
  readonly unimplementedMs?: number | undefined
  readonly onState: (state: CallState) => void
  readonly clock?: Pick<Clock, 'monotonicMs'> | undefined
}

/** Makes a call again whenever it ends, until `stop`. */
export class ReconnectingCall {
  readonly #options: ReconnectingCallOptions
  readonly #stopped = new AbortController()
  #running: Promise<void> = Promise.resolve()
  #isWorking = false
  #lastReason: string | undefined

  constructor(options: ReconnectingCallOptions) {
    this.#options = options
  }

  start(): void {
    this.#running = this.#run()
  }

  /** Resolves when the call has ended. The owner of the client closes the client only then. */
  async stop(): Promise<void> {
    this.#stopped.abort()
    await this.#running
  }

  async #run(): Promise<void> {
    const { callOnce, onState, clock = systemClock } = this.#options
    const { signal } = this.#stopped
    const pause = new WakeablePause()
    while (!signal.aborted) {
      const beganMs = clock.monotonicMs()
      const error = await callOnce(signal, () => this.#noteWorking()).then(
        () => new Error('the server ended the stream'),
        (reason: Error) => reason,
      )
      if (signal.aborted) return
      this.#isWorking = false
      const retryMs = this.#delayAfter(error, clock.monotonicMs() - beganMs)
      onState({ kind: 'interrupted', error, retryMs, isRepeated: error.message === this.#lastReason })
      if (retryMs === 0) continue
      this.#lastReason = error.message
      await pause.wait(retryMs, signal)
    }
  }

  #noteWorking(): void {
    const { backoff, onState } = this.#options
    backoff.reset()
    if (this.#isWorking || this.#stopped.signal.aborted) return
    this.#isWorking = true
    this.#lastReason = undefined
    onState({ kind: 'working' })
  }

  #delayAfter(error: Error, lastedMs: number): number {
    const { backoff, unimplementedMs, reopensAtOnce = false } = this.#options
    const { establishedMs = Number.POSITIVE_INFINITY } = this.#options
    if (unimplementedMs !== undefined && findStatusCode(error) === statusCodes.UNIMPLEMENTED)
      return unimplementedMs
    if (lastedMs > establishedMs && !reopensAtOnce) backoff.reset()
    const waitMs = backoff.nextMs()
    if (!reopensAtOnce || lastedMs < Math.max(waitMs, establishedMs)) return waitMs
    backoff.reset()
    return 0
  }
}

/** Undefined if the error is no `GrpcError`. */
export function findStatusCode(error: unknown): number | undefined {
  return error instanceof GrpcError ? error.code : undefined
}

/** Resolves when the server ends the call with OK; rejects with any other end. */
export async function receiveAll<Message>(
  messages: AsyncIterable<Message>,
  receive: (message: Message) => void,
): Promise<void> {
  for await (const message of messages) receive(message)
}

/** Receives the messages of a call to which the caller writes meanwhile. */
export class BackgroundReceiver<Message> {
  /** Settles as `receiveAll` does. May be awaited late: a rejection counts as handled. */
  readonly ended: Promise<void>
  #hasEnded = false

  /** @param onEnd called when the call has ended, so that the caller can stop waiting to write */
  constructor(messages: AsyncIterable<Message>, receive: (message: Message) => void, onEnd: () => void) {
    this.ended = receiveAll(messages, receive).finally(() => {
      this.#hasEnded = true
      onEnd()
    })
    this.ended.catch(() => {})
  }

  get hasEnded(): boolean {
    return this.#hasEnded
  }
}
