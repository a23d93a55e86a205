import { systemClock } from '@tollway/chassis/clock.ts'
import type { Metadata } from '../server.ts'
import { GrpcError, statusCodes } from '../status.ts'

export interface CallStatus {
  readonly code: number
  readonly message: string
  readonly trailers: Metadata
}

export interface LifetimeOptions {
  /** The deadline in the time of the monotonic clock. */
  readonly deadlineMs: number | undefined
  /** Ends the call for the caller. Throws for invalid trailers, without sending anything. */
  sendStatus(status: CallStatus): void
  onDefect(error: unknown): void
  /** Called once, when the call is over and the handler has ended. */
  onEnd(): void
}

/** The life cycle of a call: it ends once, and all parties are notified. */
export interface CallLifetime {
  readonly signal: AbortSignal
  /** Runs the handler, at most once. Its outcome is the call's answer, unless the call was aborted before. */
  work(handler: () => Promise<void>): Promise<void>
  /**
   * Adds a listener for the end of the call, which receives the reason when the call was aborted; called at
   * once when the call is already over.
   */
  onOver(listener: (reason?: GrpcError) => void): void
  setTrailers(trailers: Metadata): void
  /** Ends the call without an answer: the caller has cancelled it, or its connection is lost. */
  disconnect(isCancelled: boolean): void
  /** Answers with this error, whatever the handler does. */
  cut(error: GrpcError): void
  /** Reports an error of a handler, unless it is caused by the call's end. */
  reportDefect(error: unknown): void
}

/** The longest time of Node's timers. */
const longestTimerMs = 2 ** 31 - 1
const noTrailers: Metadata = new Map()
const internalError: CallStatus = {
  code: statusCodes.INTERNAL,
  message: 'internal error',
  trailers: noTrailers,
}

export function createCallLifetime(options: LifetimeOptions): CallLifetime {
  const abort = new AbortController()
  const { signal } = abort
  let over: { readonly reason: GrpcError | undefined } | undefined
  let notifyOver: (reason?: GrpcError) => void = () => {}
  let working = false
  let trailers = noTrailers
  const deadlineTimer = startDeadline(options.deadlineMs, () => cut(deadlineExceeded()))

  function end(reason?: GrpcError): void {
    over = { reason }
    clearTimeout(deadlineTimer)
    notifyOver(reason)
    if (reason) abort.abort(reason)
    if (!working) options.onEnd()
  }

  function answer(status: CallStatus): void {
    if (over) return
    sendStatus(options, status)
    end()
  }

  function cut(error: GrpcError): void {
    if (over) return
    options.sendStatus({ code: error.code, message: error.message, trailers: noTrailers })
    end(error)
  }

  function fail(error: unknown): void {
    if (!(error instanceof GrpcError)) reportDefect(error)
    answer(statusOf(error, trailers))
  }

  function reportDefect(error: unknown): void {
    if (!(signal.aborted && isConsequenceOfAbort(error))) options.onDefect(error)
  }

  return {
    signal,
    async work(handler) {
      working = true
      try {
        await handler()
        answer({ code: statusCodes.OK, message: '', trailers })
      } catch (error) {
        fail(error)
      }
      working = false
      options.onEnd()
    },
    onOver(listener) {
      notifyOver = listener
      if (over) listener(over.reason)
    },
    setTrailers(wanted) {
      trailers = wanted
    },
    disconnect(isCancelled) {
      if (over) return
      end(hasPassed(options.deadlineMs) ? deadlineExceeded() : callerGone(isCancelled))
    },
    cut,
    reportDefect,
  }
}

function startDeadline(deadlineMs: number | undefined, onLate: () => void): NodeJS.Timeout | undefined {
  if (deadlineMs === undefined) return undefined
  const waitMs = Math.max(0, deadlineMs - systemClock.monotonicMs())
  return waitMs > longestTimerMs ? undefined : setTimeout(onLate, waitMs)
}

function hasPassed(deadlineMs: number | undefined): boolean {
  return deadlineMs !== undefined && systemClock.monotonicMs() >= deadlineMs
}

/** Sends the status, or INTERNAL if its trailers are invalid. */
function sendStatus(options: Pick<LifetimeOptions, 'sendStatus' | 'onDefect'>, status: CallStatus): void {
  try {
    options.sendStatus(status)
  } catch (error) {
    options.sendStatus(internalError)
    options.onDefect(error)
  }
}

/** Returns the status for an error of a handler. The caller learns nothing of an unexpected error. */
function statusOf(error: unknown, trailers: Metadata): CallStatus {
  if (!(error instanceof GrpcError)) return internalError
  return { code: error.code, message: error.message, trailers: merge(trailers, error.trailers) }
}

function deadlineExceeded(): GrpcError {
  return new GrpcError('DEADLINE_EXCEEDED', 'the deadline has passed')
}

/** The reason of a call that its caller has cancelled, or whose connection is lost. */
export function callerGone(isCancelled: boolean): GrpcError {
  return isCancelled
    ? new GrpcError('CANCELLED', 'the caller has disconnected')
    : new GrpcError('UNAVAILABLE', 'the connection is lost')
}

/** The error's values take precedence. */
function merge(trailers: Metadata, ofError: Metadata | undefined): Metadata {
  return ofError ? new Map([...trailers, ...ofError]) : trailers
}

/**
 * Returns whether the error is the signal's reason, or the error of Node's functions for an aborted signal.
 */
function isConsequenceOfAbort(error: unknown): boolean {
  return error instanceof GrpcError || (error instanceof Error && error.name === 'AbortError')
}
