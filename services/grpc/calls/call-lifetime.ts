import { systemClock } from '@tollway/chassis/clock.ts'
import type { Metadata } from '../server.ts'
import { GrpcError, statusCodes } from '../status.ts'
import type { WireStatus } from './wire-metadata.ts'

/** The longest time for which a timer of Node can wait. */
const longestTimerMs = 2 ** 31 - 1
const internalError: WireStatus = { code: statusCodes.INTERNAL, message: 'internal error' }

/**
 * The life of a call, which ends exactly once. The abort signal and the timer of the deadline are created
 * only if needed.
 */
export abstract class CallLifetime {
  readonly deadlineMs: number | undefined
  /** The index in `CallRegister`, which alone sets it. */
  index = 0
  protected trailers: Metadata | undefined
  #abort: AbortController | undefined
  #timer: NodeJS.Timeout | undefined
  #working = false
  #over = false
  /** Why the call was aborted, if it was. */
  #reason: GrpcError | undefined

  constructor(deadlineMs: number | undefined) {
    this.deadlineMs = deadlineMs
  }

  /** Ends the call for the caller. Throws for invalid trailers, before anything is sent. */
  protected abstract sendStatus(status: WireStatus): void
  protected abstract onDefect(error: unknown): void
  /** Called when the call is over. `reason` is undefined if the call was answered. */
  protected abstract onOver(reason: GrpcError | undefined): void
  /** Called once, when the call is over and the handler has ended. */
  protected abstract onLeave(): void

  get isOver(): boolean {
    return this.#over
  }

  get signal(): AbortSignal {
    if (this.#abort === undefined) {
      this.#abort = new AbortController()
      if (this.#reason) this.#abort.abort(this.#reason)
    }
    return this.#abort.signal
  }

  setTrailers(trailers: Metadata): void {
    this.trailers = trailers
  }

  /** A deadline more than 24.8 days away gets no timer. */
  startDeadline(): void {
    if (this.deadlineMs === undefined) return
    const waitMs = Math.max(0, this.deadlineMs - systemClock.monotonicMs())
    if (waitMs <= longestTimerMs) this.#timer = setTimeout(() => this.cut(deadlineExceeded()), waitMs)
  }

  /**
   * The caller has cancelled the call, or the connection was lost; a deadline that has passed takes
   * precedence.
   */
  disconnect(isCancelled: boolean): void {
    const isLate = this.deadlineMs !== undefined && systemClock.monotonicMs() >= this.deadlineMs
    this.end(isLate ? deadlineExceeded() : callerGone(isCancelled))
  }

  /** Answers with this error and aborts the signal; does nothing if the call is over. */
  cut(error: GrpcError): void {
    if (this.#over) return
    this.sendStatus({ code: error.code, message: error.message })
    this.end(error)
  }

  /** Ignores errors that result from the abort of the call. */
  reportDefect(error: unknown): void {
    if (!(this.#reason && isConsequenceOfAbort(error))) this.onDefect(error)
  }

  protected workBegins(): void {
    this.#working = true
  }

  protected workEnded(): void {
    this.#working = false
    this.#leaveWhenDone()
  }

  /** Does nothing if the call is over. For invalid trailers, answers INTERNAL and reports the defect. */
  protected answer(status: WireStatus): void {
    if (this.#over) return
    try {
      this.sendStatus(status)
    } catch (error) {
      this.sendStatus(internalError)
      this.reportDefect(error)
    }
    this.end(undefined)
  }

  /** Answers with the status of a `GrpcError`; for any other error, with INTERNAL without details. */
  protected answerError(error: unknown): void {
    if (error instanceof GrpcError) {
      const trailers = error.trailers ? new Map([...(this.trailers ?? []), ...error.trailers]) : this.trailers
      this.answer({ code: error.code, message: error.message, ...(trailers && { trailers }) })
    } else {
      this.reportDefect(error)
      this.answer(internalError)
    }
  }

  protected end(reason: GrpcError | undefined): void {
    if (this.#over) return
    this.#over = true
    this.#reason = reason
    this.onOver(reason)
    if (this.#timer) clearTimeout(this.#timer)
    if (reason) this.#abort?.abort(reason)
    this.#leaveWhenDone()
  }

  #leaveWhenDone(): void {
    if (this.#over && !this.#working) this.onLeave()
  }
}

function deadlineExceeded(): GrpcError {
  return new GrpcError('DEADLINE_EXCEEDED', 'the deadline has passed')
}

function callerGone(isCancelled: boolean): GrpcError {
  return isCancelled
    ? new GrpcError('CANCELLED', 'the caller has disconnected')
    : new GrpcError('UNAVAILABLE', 'the connection is lost')
}

/**
 * Returns whether the error is a `GrpcError`, such as the reason of the signal, or the AbortError of Node's
 * functions.
 */
function isConsequenceOfAbort(error: unknown): boolean {
  return error instanceof GrpcError || (error instanceof Error && error.name === 'AbortError')
}
