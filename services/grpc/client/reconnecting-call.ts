import type { Backoff } from '@tollway/chassis/backoff.ts'
import { type Clock, systemClock } from '@tollway/chassis/clock.ts'
import { WakeablePause } from '@tollway/chassis/wakeable-pause.ts'
import { GrpcError, statusCodes } from '../status.ts'

/** A change of the state of a reconnecting call, or one more failed attempt. */
export type CallState =
  /** The call has begun to work, for the first time or after an interruption. */
  | { readonly kind: 'working' }
  /** The call has ended. The next one begins after `retryMs`; 0 means at once. */
  | {
      readonly kind: 'interrupted'
      readonly error: Error
      readonly retryMs: number
      /** Whether the previous call ended for the same reason, and no call has worked since. */
      readonly isRepeated: boolean
    }

export interface ReconnectingCallOptions {
  /**
   * Makes one call, which ends when the signal aborts. Resolves when the server has ended the call with OK;
   * rejects with the reason of any other end. Calls `onWorking` when the server has answered as expected,
   * which resets the delays.
   */
  readonly callOnce: (signal: AbortSignal, onWorking: () => void) => Promise<void>
  /** The delays between calls. */
  readonly backoff: Backoff
  /**
   * A call that lasts longer than this counts as working and resets the delays. Undefined: the duration does
   * not count.
   */
  readonly establishedMs?: number | undefined
  /**
   * If true, the next call begins at once after a call that lasted at least `establishedMs` and at least the
   * delay.
   */
  readonly reopensAtOnce?: boolean | undefined
  /**
   * The delay after UNIMPLEMENTED, which means that the server has another version. Defaults to the backoff's
   * next delay.
   */
  readonly unimplementedMs?: number | undefined
  readonly onState: (state: CallState) => void
  readonly clock?: Pick<Clock, 'monotonicMs'> | undefined
}

/** Keeps a call to a server running: whenever the call ends, makes it again, until `stop`. */
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

  /**
   * Ends the call for good, and resolves when it has ended. The owner of the client closes the client after
   * that.
   */
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

/** Returns the gRPC status code of an error; undefined if it is not a `GrpcError`. */
export function findStatusCode(error: unknown): number | undefined {
  return error instanceof GrpcError ? error.code : undefined
}

/**
 * Passes each message to `receive`. Resolves when the server ends the call with OK; rejects with any other
 * end.
 */
export async function receiveAll<Message>(
  messages: AsyncIterable<Message>,
  receive: (message: Message) => void,
): Promise<void> {
  for await (const message of messages) receive(message)
}

/** Receives the messages of a call while the caller writes to it. */
export class BackgroundReceiver<Message> {
  /**
   * Resolves when the server ends the call with OK; rejects with any other end. The caller may await it late:
   * the rejection counts as handled.
   */
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
