import type { Span } from '@tollway/chassis/tracing.ts'
import { fromMetadata } from '@tollway/grpc/call-headers.ts'
import { GrpcError } from '@tollway/grpc/status.ts'
import type { LoggedRequest, RequestEnd } from '../log/stream-log.ts'
import type { Mutable } from '../wire/read-header.ts'
import type { Status } from '../wire/status.ts'
import { hashToken } from './admission.ts'
import { beginRequest, type PushedRequest, type Received, RuleBroken } from './pushed-request.ts'
import { startRequestSpan } from './request-span.ts'
import type { Caller, StreamContext } from './stream-context.ts'

/** One producer's call: the messages of one request, in their order. */
export interface Push {
  /** Takes the next message. A promise that comes back says when the one after it may come. */
  take(bytes: Uint8Array): Promise<void> | undefined
  /** The producer has sent everything. */
  halfClose(): void
  /** The producer is gone, or its call was cut. */
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
 * A push whose first message is no header cannot be routed, whatever the rules of any route: it ends with a
 * Status ERROR of the rule `order`. One without any id is INVALID_ARGUMENT.
 */
export function createPush(context: StreamContext, caller: Caller): Push {
  const { clock, limits } = context
  const answer = Promise.withResolvers<Status>()
  // Nobody waits for the answer of a producer that is gone.
  answer.promise.catch(() => {})
  const traceparent = fromMetadata(caller.metadata)('traceparent') || context.newTraceparent()
  const beganMs = clock.monotonicMs()
  let lastMessageMs = beganMs
  let waitsForRoom = false
  let begun = false
  let pushed: PushedRequest | undefined
  let span: Span | undefined
  /** How the request ended for its consumers. */
  let ended: RequestEnd | undefined

  function finish(end: RequestEnd, outcome: Status | GrpcError): void {
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
      const request = await beginRequest(context, { bytes, token: hashToken(caller.metadata), traceparent })
      if (ended !== undefined) return await request.end(ended)
      pushed = request
      push.request = request.request
      push.received = request.received
      span = startRequestSpan(context, 'Push', request.request)
      request.onEnded(end => {
        if (end.how !== 'completed') finish(end, end.status)
      })
    } catch (error) {
      failWith(error)
    }
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
      try {
        return pushed === undefined || pushed.relay(bytes) ? undefined : waitForRoom(pushed)
      } catch (error) {
        failWith(error)
        return undefined
      }
    },
    halfClose() {
      if (ended !== undefined) return
      if (pushed === undefined) return fail('refused', 'order #0: the push ended without a header')
      const completed = pushed.complete()
      finish(completed.end, completed.answer)
    },
    lose(reason) {
      const status: Status = { code: 'ERROR', message: `the producer is gone: ${reason.message}` }
      finish({ how: 'lost', status }, reason)
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
  return push
}
