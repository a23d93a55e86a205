import type { Span } from '@tollway/chassis/tracing/tracing.ts'
import { fromMetadata } from '@tollway/grpc/calls/call-headers.ts'
import { GrpcError, statusCodes } from '@tollway/grpc/status.ts'
import type { LoggedRequest, WriterEnd } from '../stream-log/stream-log.ts'
import type { Status } from '../wire/status.ts'
import { hashToken } from './admission.ts'
import {
  beginRequest,
  continueRequest,
  type PushedRequest,
  type ReceivedTotals,
  RuleBroken,
} from './pushed-request.ts'
import { nextMetadata, type ResumeToken, readResumeToken, resumeMetadata } from './resume-token.ts'
import { type PushCaller, type StreamContext, startRequestSpan } from './stream-context.ts'

/**
 * One producer's call: the messages of one request, in order.
 *
 * A problem with the messages is answered with a Status of any code; a problem with the call (ids,
 * permission, size, limits) with a gRPC code. Consumers get the same text in a status.
 *
 * A push with a resume token continues its request. The metadata of the response say which message comes
 * next; a push that sends messages before that is rejected.
 *
 * A push whose first message is not a header cannot be routed, so no route's rules apply: it ends with a
 * Status ERROR of the rule `order`. A push without any id is INVALID_ARGUMENT.
 */
export class Push {
  readonly peer: string
  readonly #context: StreamContext
  readonly #caller: PushCaller
  /** Undefined if the push begins a request. */
  readonly #resumeToken: ResumeToken | undefined
  readonly #bearer: ReturnType<typeof hashToken>
  readonly #done = Promise.withResolvers<Status>()
  #beganMs: number
  #lastMessageMs: number
  #waitsForRoom = false
  /** Whether the header was received, in this call or an earlier one. */
  #begun: boolean
  /** Undefined until the request has begun in the log. */
  #pushed: PushedRequest | undefined
  #span: Span | undefined
  /** The end that consumers get, or `continued`. */
  #ended: WriterEnd | undefined

  /** @throws GrpcError INVALID_ARGUMENT for an invalid resume token in the metadata */
  constructor(context: StreamContext, caller: PushCaller) {
    this.peer = caller.peer
    this.#context = context
    this.#caller = caller
    this.#resumeToken = readResumeToken(caller.metadata)
    this.#bearer = hashToken(caller.metadata)
    this.#beganMs = context.clock.monotonicMs()
    this.#lastMessageMs = this.#beganMs
    this.#begun = this.#resumeToken !== undefined
    // Nothing else handles a rejection if the producer is disconnected.
    this.#done.promise.catch(() => {})
    if (this.#resumeToken !== undefined) this.#resume(this.#resumeToken)
  }

  /** The final status for the producer; rejects with a `GrpcError` if the call was invalid. */
  get done(): Promise<Status> {
    return this.#done.promise
  }

  /** Whether the push accepts no more messages. */
  get over(): boolean {
    return this.#ended !== undefined
  }

  /** Undefined until the request has begun in the log. */
  get request(): LoggedRequest | undefined {
    return this.#pushed?.request
  }

  /** Undefined until the request has begun in the log. */
  get received(): ReceivedTotals | undefined {
    return this.#pushed?.received
  }

  /**
   * Takes the next message. If it returns a promise, the caller awaits it before it passes another message.
   */
  take(bytes: Uint8Array): Promise<void> | undefined {
    if (this.over) return undefined
    this.#lastMessageMs = this.#context.clock.monotonicMs()
    if (!this.#begun) return this.#begin(bytes)
    if (this.#isEarly) return this.#rejectEarly()
    const pushed = this.#pushed
    try {
      return pushed === undefined || pushed.relay(bytes) ? undefined : this.#waitForRoom(pushed)
    } catch (error) {
      this.#failWith(error)
      return undefined
    }
  }

  /** To be called when the producer has sent everything. */
  halfClose(): void {
    if (this.over) return
    if (this.#isEarly) this.#rejectEarly()
    else if (this.#pushed === undefined) this.#fail('refused', 'order #0: the push ended without a header')
    else {
      const { end, answer } = this.#pushed.complete()
      this.#finish(end, answer)
    }
  }

  /**
   * To be called when the producer is disconnected, or its call was cut. With a resume token the request
   * waits for the producer, unless the producer has cancelled the call itself.
   */
  close(reason: GrpcError): void {
    if (this.over) return
    const pushed = this.#pushed
    const mayReturn = pushed?.resumeToken !== undefined && reason.code === statusCodes.UNAVAILABLE
    if (pushed !== undefined && mayReturn) this.#suspend(pushed, reason)
    else this.#finish(lostWith(reason.message), reason)
  }

  sweep(): void {
    const nowMs = this.#context.clock.monotonicMs()
    const { headerWaitMs } = this.#context.limits
    const { idleSeconds = headerWaitMs / 1000, totalSeconds = Number.POSITIVE_INFINITY } =
      this.#pushed?.route.limits ?? {}
    if (nowMs - this.#beganMs > totalSeconds * 1000) {
      this.#fail('lost', `the request ran for ${totalSeconds} s, which is all that its route allows`)
    } else if (!this.#waitsForRoom && nowMs - this.#lastMessageMs > idleSeconds * 1000) {
      this.#fail('lost', `the producer sent nothing for ${idleSeconds} s`)
    }
  }

  /** To be called when the routes have changed: ends the push if they no longer accept the producer. */
  recheck(): void {
    const rejection = this.#pushed?.findRejection()
    if (rejection !== undefined) this.#failWith(rejection)
  }

  /**
   * Whether the producer sends before the response. A producer that continues must not, as it cannot know yet
   * which message comes next.
   */
  get #isEarly(): boolean {
    return this.#pushed === undefined && this.#resumeToken !== undefined
  }

  #rejectEarly(): undefined {
    this.#failWith(new GrpcError('FAILED_PRECONDITION', `a message came before the answer's ${nextMetadata}`))
  }

  async #begin(bytes: Uint8Array): Promise<void> {
    this.#begun = true
    const { metadata } = this.#caller
    const traceparent = fromMetadata(metadata)('traceparent') || this.#context.newTraceparent()
    try {
      const request = await beginRequest(this.#context, { bytes, token: this.#bearer, traceparent })
      if (this.#ended === undefined) this.#adopt(request)
      else await request.end(this.#ended)
    } catch (error) {
      this.#failWith(error)
    }
  }

  async #resume(token: ResumeToken): Promise<void> {
    try {
      const request = await continueRequest(this.#context, { ...token, bearer: this.#bearer })
      if (this.over) return request.suspend(lostWith('it did not wait for the answer'))
      this.#beganMs -= this.#context.clock.nowMs() - request.request.openedMs
      this.#adopt(request)
    } catch (error) {
      this.#failWith(error)
    }
  }

  #adopt(request: PushedRequest): void {
    this.#pushed = request
    this.#lastMessageMs = this.#context.clock.monotonicMs()
    this.#span = startRequestSpan(this.#context, 'Push', request.request)
    request.onEnded(end => {
      if (end.how === 'continued') this.#finish(end, continued())
      else if (end.how !== 'completed') this.#finish(end, end.status)
    })
    if (request.resumeToken === undefined || this.over) return
    const next = String(request.received.messages)
    this.#caller.sendHeaders(
      new Map([
        [resumeMetadata, [request.resumeToken]],
        [nextMetadata, [next]],
      ]),
    )
  }

  async #waitForRoom(request: PushedRequest): Promise<void> {
    this.#waitsForRoom = true
    await request.ready()
    this.#waitsForRoom = false
    this.#lastMessageMs = this.#context.clock.monotonicMs()
  }

  /** Suspends the request, which continues if the producer returns. */
  #suspend(request: PushedRequest, reason: GrpcError): void {
    const graceSeconds = this.#context.limits.resumeGraceMs / 1000
    const end = lostWith(`${reason.message}, and it did not come back for ${graceSeconds} s`)
    this.#ended = end
    request.suspend(end)
    this.#settle(reason)
  }

  #failWith(error: unknown): void {
    if (error instanceof RuleBroken) this.#fail('refused', error.message)
    else if (error instanceof GrpcError) {
      this.#finish({ how: 'refused', status: { code: 'ERROR', message: error.message } }, error)
    } else {
      this.#done.reject(error)
      this.#fail('lost', 'internal error of the broker')
    }
  }

  #fail(how: 'lost' | 'refused', message: string): void {
    const status: Status = { code: 'ERROR', message }
    this.#finish({ how, status }, status)
  }

  /** Ends the request, and answers the producer when the end is in the log. */
  #finish(end: WriterEnd, outcome: Status | GrpcError): void {
    if (this.over) return
    this.#ended = end
    const logged = this.#pushed?.end(end) ?? Promise.resolve()
    logged.then(
      () => this.#settle(outcome),
      error => this.#settle(new GrpcError('UNAVAILABLE', (error as Error).message)),
    )
  }

  #settle(outcome: Status | GrpcError): void {
    const isError = outcome instanceof GrpcError || outcome.code === 'ERROR'
    this.#span?.end(isError ? outcome.message : undefined)
    if (outcome instanceof GrpcError) this.#done.reject(outcome)
    else this.#done.resolve(outcome)
  }
}

const lostWith = (message: string) =>
  ({ how: 'lost', status: { code: 'ERROR', message: `the producer is gone: ${message}` } }) as const

const continued = () => new GrpcError('ABORTED', 'the producer has continued the request in another call')
