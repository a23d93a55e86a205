import { type BackoffOptions, createBackoff } from '@tollway/chassis/backoff.ts'
import type { Clock } from '@tollway/chassis/clock.ts'
import type { Log } from '@tollway/chassis/log/log.ts'
import { createWakeablePause } from '@tollway/chassis/wakeable-pause.ts'
import { GrpcError, statusCodes } from '@tollway/grpc/status.ts'

/** A call to the management server that is made again whenever it ends. */
export interface KeptCall {
  start(): void
  /** Ends the call. Call it before the connection is closed. */
  stop(): Promise<void>
}

export interface KeptCallTiming {
  /**
   * The delays after the end of a call. They start again after a call that lasted longer than the longest
   * delay.
   */
  readonly backoff: Pick<BackoffOptions, 'initialMs' | 'maxMs'>
  /** The delay after a management server that does not know the method. */
  readonly unsupportedMs: number
}

export interface KeptCallOptions {
  /** Makes one call, and rejects with the reason when it has ended. */
  readonly callOnce: (signal: AbortSignal) => Promise<void>
  /** The purpose of the call, for the log: `report decisions`. */
  readonly what: string
  readonly timing: KeptCallTiming
  readonly clock: Clock
  /** Uniform in [0, 1). */
  readonly random: () => number
  readonly log: Log
}

/**
 * Keeps a call open over the connection of the feed. A reason is logged once. The feed has the same
 * connection and reports when that fails, and a server without the method is no failure.
 */
export function createKeptCall({ callOnce, what, timing, ...parts }: KeptCallOptions): KeptCall {
  const { clock, random, log } = parts
  const { backoff: waits, unsupportedMs } = timing
  const backoff = createBackoff({ ...waits, factor: 2, jitter: 0.5, random })
  const stopped = new AbortController()
  const { signal } = stopped
  let running: Promise<void> = Promise.resolve()
  let lastReason = ''

  /** Returns the delay before the next call. */
  function delayAfter(error: unknown, lastedMs: number): number {
    const { message: reason } = error as Error
    const code = error instanceof GrpcError ? error.code : undefined
    const isExpected = code === statusCodes.UNAVAILABLE || code === statusCodes.UNIMPLEMENTED
    const isNew = code !== undefined && !isExpected && reason !== lastReason
    if (isNew) lastReason = reason
    log[isNew ? 'warn' : 'debug'](`${what}: failed`, { reason })
    if (code === statusCodes.UNIMPLEMENTED) return unsupportedMs
    if (lastedMs > waits.maxMs) backoff.reset()
    return backoff.nextMs()
  }

  async function run(): Promise<void> {
    const between = createWakeablePause()
    while (!signal.aborted) {
      const beganMs = clock.monotonicMs()
      const error: unknown = await callOnce(signal).catch((reason: unknown) => reason)
      if (!signal.aborted) await between.wait(delayAfter(error, clock.monotonicMs() - beganMs), signal)
    }
  }

  return {
    start() {
      running = run()
    },
    async stop() {
      stopped.abort()
      await running
    },
  }
}

/** Passes each message of the server on, and rejects when the server ends the call. */
export async function receiveAll<Message>(
  messages: AsyncIterable<Message>,
  receive: (message: Message) => void,
): Promise<never> {
  for await (const message of messages) receive(message)
  throw new Error('the operator ended the stream')
}
