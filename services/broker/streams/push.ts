import type { Span } from '@tollway/chassis/tracing.ts'
import { fromMetadata } from '@tollway/grpc/call-headers.ts'
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
  /** Takes the next message. A promise that comes back says when the one after it may come. */
  take(bytes: Uint8Array): Promise<void> | undefined
  /** The producer has sent everything. */
  halfClose(): void
  /**
   * The producer is gone, or its call was cut. A request whose producer has got a resume token waits for it,
   * unless the producer has cancelled the call itself.
   */
  lose(reason: GrpcError): void
  /** Looks at the limits in time. */
  sweep(): void
  /** The routes have changed, and may not admit the producer any more. */
  recheck(): void
  /** How the request went; rejects with a `GrpcError` where the call was not in order. */
  readonly answer: Promise<Status>
  /** Nothing more is taken. */
  readonly over: boolean
  /** undefined until there is a header. */
  readonly request: LoggedRequest | undefined
  /** What has come so far; undefined until there is a header. */
  readonly received: Received | undefined
  readonly peer: string
}

/**
 * What is wrong with the messages is told the producer by a Status, whatever its code; what is wrong with the
 * call (ids, permission, size, room) by a gRPC code. Consumers get the same text in a status.
 *
 * A push with a resume token continues its request: its messages are those that follow what the log has, as
 * the metadata of the answer say. Its messages may come only after that.
 *
 * A push whose first message is no header cannot be routed, whatever the rules of any route: it ends with a
 * Status ERROR of the rule `order`. One without any id is INVALID_ARGUMENT.
 *
 * @throws GrpcError INVALID_ARGUMENT for metadata that are no resume token
 */
export function createPush(context: StreamContext, caller: Pusher): Push {
  const { clock, limits } = context
  const presented = readResumeToken(caller.metadata)
  const bearer = hashToken(caller.metadata)
  const answer = Promise.withResolvers<Status>()
  // Nobody waits for the answer of a producer that is gone.
  answer.promise.catch(() => {})
  const traceparent = fromMetadata(caller.metadata)('traceparent') || context.newTraceparent()
  let beganMs = clock.monotonicMs()
  let lastMessageMs = beganMs
  let waitsForRoom = false
  let begun = presented !== undefined
  let pushed: PushedRequest | undefined
  let span: Span | undefined
  /** How the request ended for its consumers. */
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

  /** The producer may come back. */
  function suspend(request: PushedRequest, reason: GrpcError): void {
    const { resumeGraceMs } = limits
    const graceSeconds = resumeGraceMs / 1000
    const end = lostWith(`${reason.message}, and it did not come back for ${graceSeconds} s`)
    ended = end
    push.over = true
    request.suspend(end)
    settle(reason)
  }

  /** A producer that does not wait for the answer cannot know which message is the next. */
  function refuseEarly(): undefined {
    failWith(new GrpcError('FAILED_PRECONDITION', `a message came before the answer's ${nextMetadata}`))
  }

  async function waitForRoom(request: PushedRequest): Promise<void> {
    waitsForRoom = true
    await request.ready()
    waitsForRoom = false
    lastMessageMs = clock.monotonicMs()
  }

  // Its state is in properties without accessors, which V8 would keep in a hash table.
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
    lose(reason) {
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
