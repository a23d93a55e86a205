import type { Clock } from '@tollway/chassis/clock.ts'
import { answerHead, type Http1Answer } from '@tollway/chassis/http1/answer.ts'
import type { Http1Request } from '@tollway/chassis/http1/requests/request.ts'
import { createHttp1Server, type Http1Server } from '@tollway/chassis/http1/server.ts'
import type { Histogram } from '@tollway/chassis/metrics/histogram.ts'
import type { RequestMemory } from '@tollway/chassis/request-memory.ts'
import type { Tracing } from '@tollway/chassis/tracing/tracing.ts'
import { CountersError } from '../counters/counters.ts'
import { type Decision, type DecisionRequest, RequestError } from '../limiter/decision.ts'
import type { Limiter } from '../limiter/limiter.ts'
import { startDecision, startJsonAnswer } from '../tracing/spans.ts'
import { decodeDecisionJson } from './decode-decision-json.ts'
import { encodeDecisionJson } from './encode-decision-json.ts'

/** A longer body is rejected. */
export const maxBodyBytes = 1024 * 1024

export interface HttpServerOptions {
  /** Limits the memory of unfinished requests; see `Http1ServerOptions`. */
  readonly memory?: RequestMemory
  readonly limiter: Limiter
  readonly clock: Pick<Clock, 'monotonicMs'>
  /** Records the time of each call of `/json`. */
  readonly times: Pick<Histogram, 'record'>
  readonly tracing?: Tracing | undefined
  readonly healthy: () => boolean
  /** Whether the process is shutting down: each answer then closes its connection. */
  readonly draining: () => boolean
  /** Called for every internal error; the process continues. */
  onDefect(path: string, error: unknown): void
  /** Called with the reason of each bad request to `/json`, which the answer does not contain. */
  onRefused?(problem: string): void
}

/**
 * Creates the server of `/json` and `/healthcheck`, with the reference's status codes and bodies, for any
 * method.
 */
export function createHttpServer(options: HttpServerOptions): Http1Server {
  return createHttp1Server({
    handle: createHandler(options),
    onDefect: options.onDefect,
    closing: options.draining,
    bodyTooLong: badRequest,
    limits: { maxBodyBytes },
    ...(options.memory && { memory: options.memory }),
  })
}

/** Synchronous where possible: a decision that the limiter makes synchronously is answered synchronously. */
function createHandler({ limiter, clock, times, tracing, healthy, onRefused }: HttpServerOptions) {
  function timed(incoming: Http1Request): Http1Answer | Promise<Http1Answer> {
    const startedMs = clock.monotonicMs()
    const record = () => times.record(clock.monotonicMs() - startedMs)
    const answer = json(incoming)
    if (answer instanceof Promise) return answer.finally(record)
    record()
    return answer
  }

  function json(incoming: Http1Request): Http1Answer | Promise<Http1Answer> {
    try {
      const request = decodeDecisionJson(incoming.body)
      if (tracing !== undefined) return traced(tracing, request, incoming)
      const decision = limiter.decide(request)
      return decision instanceof Promise ? decision.then(toAnswer, refuse) : toAnswer(decision)
    } catch (error) {
      return refuse(error)
    }
  }

  function traced(
    tracing: Tracing,
    request: DecisionRequest,
    incoming: Http1Request,
  ): Http1Answer | Promise<Http1Answer> {
    const span = startDecision(tracing, request, name => incoming.header(name))
    const answer = (decision: Decision) =>
      span === undefined ? toAnswer(decision) : startJsonAnswer(span).run(() => toAnswer(decision))
    const decision = span ? span.run(() => limiter.decide(request, span)) : limiter.decide(request)
    return decision instanceof Promise ? decision.then(answer, refuse) : answer(decision)
  }

  /** Any other error is an internal error. */
  function refuse(error: unknown): Http1Answer {
    if (!(error instanceof RequestError || error instanceof CountersError)) throw error
    onRefused?.(error.message)
    return badRequest
  }

  return (request: Http1Request) => {
    const { path } = request
    if (path === '/json') return timed(request)
    if (path === '/healthcheck') return healthy() ? isHealthy : isUnhealthy
    return notFound
  }
}

const jsonType = { 'Content-Type': 'application/json' }
const okHead = answerHead(200, jsonType)
const overLimitHead = answerHead(429, jsonType)

function toAnswer(decision: Decision): Http1Answer {
  return { head: decision.over ? overLimitHead : okHead, body: encodeDecisionJson(decision) }
}

const isHealthy = text(200, 'OK')
const isUnhealthy: Http1Answer = { head: answerHead(500) }
const badRequest = text(400, 'Bad Request\n')
const notFound = text(404, '404 page not found\n')

function text(status: number, body: string): Http1Answer {
  const headers = { 'Content-Type': 'text/plain; charset=utf-8', 'X-Content-Type-Options': 'nosniff' }
  return { head: answerHead(status, headers), body }
}
