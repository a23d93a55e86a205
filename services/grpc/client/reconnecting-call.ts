import type { Backoff } from '@tollway/chassis/backoff.ts'
import { type Clock, systemClock } from '@tollway/chassis/clock.ts'
import { WakeablePause } from '@tollway/chassis/wakeable-pause.ts'
import { GrpcError, statusCodes } from '../status.ts'

/** A change of the state of a call, or one more failed attempt. */
export type CallState =
  /** The call works: for the first time, or again. */
  | { readonly kind: 'working' }
  /** The call has ended, and is made again after `retryMs`. */
  | {
      readonly kind: 'interrupted'
      readonly error: Error
      readonly retryMs: number
      /** Whether the call has ended for the same reason before, and has not worked since. */
      readonly isRepeated: boolean
    }

export interface ReconnectingCallOptions {
  /**
   * Makes one call, which the signal ends. Rejects with the reason of its end, or resolves when the server has
   * ended it with OK. It calls `onWorking` when the server has answered as expected, which resets the delays.
   */
  readonly callOnce: (signal: AbortSignal, onWorking: () => void) => Promise<void>
  /** The delays between calls. */
  readonly backoff: Backoff
  /** A call that lasted longer has worked: it resets the delays. Never, when left out. */
  readonly establishedMs?: number | undefined
  /** Whether the next call is made at once after one that lasted longer than its delay and `establishedMs`. */
  readonly reopensAtOnce?: boolean | undefined
  /** The delay after UNIMPLEMENTED: the server has another version. Defaults to that of the backoff. */
  readonly unimplementedMs?: number | undefined
  readonly onState: (state: CallState) => void
  readonly clock?: Pick<Clock, 'monotonicMs'> | undefined
}

/** A call to a server that is made again whenever it ends, until `stop`. */
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

  /** Ends the call, and resolves when it has ended. A client is closed after it. */
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

/** Returns the status of a call by its error; undefined if it did not fail by gRPC. */
export function findStatusCode(error: unknown): number | undefined {
  return error instanceof GrpcError ? error.code : undefined
}

/** Passes each message on, and resolves when the server ends the call with OK. */
export async function receiveAll<Message>(
  messages: AsyncIterable<Message>,
  receive: (message: Message) => void,
): Promise<void> {
  for await (const message of messages) receive(message)
}
