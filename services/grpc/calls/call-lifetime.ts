import { systemClock } from '@tollway/chassis/clock.ts'
import type { Metadata } from '../server.ts'
import { GrpcError, statusCodes } from '../status.ts'
import type { CuttableCall } from './call-context.ts'
import type { WireStatus } from './wire-metadata.ts'

/** The longest time of Node's timers. */
const longestTimerMs = 2 ** 31 - 1
const internalError: WireStatus = { code: statusCodes.INTERNAL, message: 'internal error' }

/**
 * The life of a call: it ends once, and all parties are notified. A signal and a timer are created only if the
 * call needs them.
 */
export abstract class CallLifetime implements CuttableCall {
  /** The deadline in the time of the monotonic clock. */
  readonly deadlineMs: number | undefined
  index = 0
  protected trailers: Metadata | undefined
  #abort: AbortController | undefined
  #timer: NodeJS.Timeout | undefined
  #working = false
  #over = false
  /** The reason why the call was aborted. */
  #reason: GrpcError | undefined

  constructor(deadlineMs: number | undefined) {
    this.deadlineMs = deadlineMs
  }

  /** Ends the call for the caller. Throws for invalid trailers, without sending anything. */
  protected abstract sendStatus(status: WireStatus): void
  protected abstract onDefect(error: unknown): void
  /** Called once, when the call is over, with the reason if it was aborted. */
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

  /** Starts the timer of the deadline. */
  startDeadline(): void {
    if (this.deadlineMs === undefined) return
    const waitMs = Math.max(0, this.deadlineMs - systemClock.monotonicMs())
    if (waitMs <= longestTimerMs) this.#timer = setTimeout(() => this.cut(deadlineExceeded()), waitMs)
  }

  /** Ends the call without an answer: the caller has cancelled it, or its connection is lost. */
  disconnect(isCancelled: boolean): void {
    const isLate = this.deadlineMs !== undefined && systemClock.monotonicMs() >= this.deadlineMs
    this.end(isLate ? deadlineExceeded() : callerGone(isCancelled))
  }

  cut(error: GrpcError): void {
    if (this.#over) return
    this.sendStatus({ code: error.code, message: error.message })
    this.end(error)
  }

  /** Reports an error of a handler, unless it follows from the call's end. */
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

  /** Answers with this status, or INTERNAL if its trailers are invalid. */
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

  /** Answers with the error of a handler. The caller learns nothing of an unexpected error. */
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
 * Returns whether the error is the signal's reason, or the error of Node's functions for an aborted signal.
 */
function isConsequenceOfAbort(error: unknown): boolean {
  return error instanceof GrpcError || (error instanceof Error && error.name === 'AbortError')
}
