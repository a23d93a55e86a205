import type { Span } from '@tollway/chassis/tracing/tracing.ts'
import { fromMetadata } from '@tollway/grpc/calls/call-headers.ts'
import { GrpcError, statusCodes } from '@tollway/grpc/status.ts'
import type { LoggedRequest, WriterEnd } from '../log/stream-log.ts'
import type { Mutable } from '../wire/read-header.ts'
import type { Status } from '../wire/status.ts'
import { hashToken } from './admission.ts'
import {
  beginRequest,
  continueRequest,
  type PushedRequest,
  type Received,
  RuleBroken,
} from './pushed-request.ts'
import { startRequestSpan } from './request-span.ts'
import { nextMetadata, readResumeToken, resumeMetadata } from './resume-token.ts'
import type { Pusher, StreamContext } from './stream-context.ts'

/** One producer's call: the messages of one request, in their order. */
export interface Push {
  /** Accepts the next message. The caller awaits a returned promise before the message after it. */
  take(bytes: Uint8Array): Promise<void> | undefined
  /** The producer has sent everything. */
  halfClose(): void
  /**
   * The producer is disconnected, or its call was cut. A request whose producer has a resume token waits for
   * it, unless the producer has cancelled the call itself.
   */
  close(reason: GrpcError): void
  /** Checks the time limits. */
  sweep(): void
  /** The routes have changed, and may no longer accept the producer. */
  recheck(): void
  /** The status of the request; rejects with a `GrpcError` if the call was invalid. */
  readonly answer: Promise<Status>
  /** No more messages are accepted. */
  readonly over: boolean
  /** Undefined before the header. */
  readonly request: LoggedRequest | undefined
  /** The messages so far; undefined before the header. */
  readonly received: Received | undefined
  readonly peer: string
}

/**
 * Errors of messages are reported to the producer with a Status of any code; errors of the call (ids,
 * permission, size, limits) with a gRPC code. Consumers get the same text in a status.
 *
 * A push with a resume token continues its request: its messages follow those in the log, as the metadata of
 * the response say. It must not send messages before that.
 *
 * A push whose first message is not a header cannot be routed, whatever the rules of any route: it ends with
 * a Status ERROR of the rule `order`. A push without any id is INVALID_ARGUMENT.
 *
 * @throws GrpcError INVALID_ARGUMENT for an invalid resume token in the metadata
 */
export function createPush(context: StreamContext, caller: Pusher): Push {
  const { clock, limits } = context
  const presented = readResumeToken(caller.metadata)
  const bearer = hashToken(caller.metadata)
  const answer = Promise.withResolvers<Status>()
  // The answer of a disconnected producer has no other handler.
  answer.promise.catch(() => {})
  const traceparent = fromMetadata(caller.metadata)('traceparent') || context.newTraceparent()
  let beganMs = clock.monotonicMs()
  let lastMessageMs = beganMs
  let waitsForRoom = false
  let begun = presented !== undefined
  let pushed: PushedRequest | undefined
  let span: Span | undefined
  /** The end of the request for its consumers. */
  let ended: WriterEnd | undefined

  function finish(end: WriterEnd, outcome: Status | GrpcError): void {
    if (ended !== undefined) return
    ended = end
    push.over = true
    const told = pushed?.end(end) ?? Promise.resolve()
    told.then(
      () => settle(outcome),
      error => settle(new GrpcError('UNAVAILABLE', (error as Error).message)),
    )
  }

  function settle(outcome: Status | GrpcError): void {
    const isError = outcome instanceof GrpcError || outcome.code === 'ERROR'
    span?.end(isError ? outcome.message : undefined)
    if (outcome instanceof GrpcError) answer.reject(outcome)
    else answer.resolve(outcome)
  }

  function fail(how: 'lost' | 'refused', message: string): void {
    const status: Status = { code: 'ERROR', message }
    finish({ how, status }, status)
  }

  function failWith(error: unknown): void {
    if (error instanceof RuleBroken) fail('refused', error.message)
    else if (error instanceof GrpcError) {
      finish({ how: 'refused', status: { code: 'ERROR', message: error.message } }, error)
    } else {
      answer.reject(error)
      fail('lost', 'the broker met a defect')
    }
  }

  async function begin(bytes: Uint8Array): Promise<void> {
    begun = true
    try {
      const request = await beginRequest(context, { bytes, token: bearer, traceparent })
      if (ended === undefined) adopt(request)
      else await request.end(ended)
    } catch (error) {
      failWith(error)
    }
  }

  async function resume(token: NonNullable<typeof presented>): Promise<void> {
    try {
      const request = await continueRequest(context, { ...token, bearer })
      if (ended !== undefined) return request.suspend(lostWith('it did not wait for the answer'))
      beganMs -= clock.nowMs() - request.request.openedMs
      adopt(request)
    } catch (error) {
      failWith(error)
    }
  }

  function adopt(request: PushedRequest): void {
    pushed = request
    push.request = request.request
    push.received = request.received
    lastMessageMs = clock.monotonicMs()
    span = startRequestSpan(context, 'Push', request.request)
    request.onEnded(end => {
      if (end.how === 'continued') finish(end, continued())
      else if (end.how !== 'completed') finish(end, end.status)
    })
    if (request.resumeToken === undefined || ended !== undefined) return
    const next = String(request.received.messages)
    caller.sendHeaders(
      new Map([
        [resumeMetadata, [request.resumeToken]],
        [nextMetadata, [next]],
      ]),
    )
  }

  /** The producer may return. */
  function suspend(request: PushedRequest, reason: GrpcError): void {
    const { resumeGraceMs } = limits
    const graceSeconds = resumeGraceMs / 1000
    const end = lostWith(`${reason.message}, and it did not come back for ${graceSeconds} s`)
    ended = end
    push.over = true
    request.suspend(end)
    settle(reason)
  }

  /** A producer that sends before the response cannot know the number of its next message. */
  function refuseEarly(): undefined {
    failWith(new GrpcError('FAILED_PRECONDITION', `a message came before the answer's ${nextMetadata}`))
  }

  async function waitForRoom(request: PushedRequest): Promise<void> {
    waitsForRoom = true
    await request.ready()
    waitsForRoom = false
    lastMessageMs = clock.monotonicMs()
  }

  // Its state is in properties without accessors, because V8 would keep accessors in a hash table.
  const push: Mutable<Push> = {
    take(bytes) {
      if (ended !== undefined) return undefined
      lastMessageMs = clock.monotonicMs()
      if (!begun) return begin(bytes)
      if (pushed === undefined && presented !== undefined) return refuseEarly()
      try {
        return pushed === undefined || pushed.relay(bytes) ? undefined : waitForRoom(pushed)
      } catch (error) {
        failWith(error)
        return undefined
      }
    },
    halfClose() {
      if (ended !== undefined) return
      if (pushed === undefined && presented !== undefined) return refuseEarly()
      if (pushed === undefined) return fail('refused', 'order #0: the push ended without a header')
      const completed = pushed.complete()
      finish(completed.end, completed.answer)
    },
    close(reason) {
      if (ended !== undefined) return
      const mayReturn = pushed?.resumeToken !== undefined && reason.code === statusCodes.UNAVAILABLE
      if (pushed !== undefined && mayReturn) suspend(pushed, reason)
      else finish(lostWith(reason.message), reason)
    },
    sweep() {
      const nowMs = clock.monotonicMs()
      const { idleSeconds = limits.headerWaitMs / 1000, totalSeconds = Number.POSITIVE_INFINITY } =
        pushed?.route.limits ?? {}
      if (nowMs - beganMs > totalSeconds * 1000) {
        fail('lost', `the request ran for ${totalSeconds} s, which is all that its route allows`)
      } else if (!waitsForRoom && nowMs - lastMessageMs > idleSeconds * 1000) {
        fail('lost', `the producer sent nothing for ${idleSeconds} s`)
      }
    },
    recheck() {
      const refusal = pushed?.findRefusal()
      if (refusal !== undefined) failWith(refusal)
    },
    answer: answer.promise,
    over: false,
    request: undefined,
    received: undefined,
    peer: caller.peer,
  }
  if (presented !== undefined) resume(presented)
  return push
}

const lostWith = (message: string) =>
  ({ how: 'lost', status: { code: 'ERROR', message: `the producer is gone: ${message}` } }) as const

const continued = () => new GrpcError('ABORTED', 'the producer has continued the request in another call')
