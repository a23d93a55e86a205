import type { IncomingMessage, ServerResponse } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Clock } from '@tollway/chassis/clock.ts'
import { MemoryBudget } from '@tollway/chassis/memory-budget.ts'
import type { Histogram } from '@tollway/chassis/metrics/histogram.ts'
import { closeHttp, listenHttp, type SharedAddress } from '@tollway/chassis/net/listen-http.ts'
import { createServer } from '@tollway/chassis/net/node-http.ts'
import type { Tracing } from '@tollway/chassis/tracing/tracing.ts'
import { CountersError } from '../counters/counters.ts'
import { type DecisionRequest, type RateLimitDecision, RequestError } from '../limiter/decision.ts'
import type { Limiter } from '../limiter/limiter.ts'
import { startDecision, startJsonAnswer } from '../spans.ts'
import { decodeDecisionJson } from './decode-decision-json.ts'
import { encodeDecisionJson } from './encode-decision-json.ts'

/** A body of more bytes is rejected with 400. */
const maxJsonBodyBytes = 1024 * 1024

/** The limits of Node's HTTP server, which answers a longer head with 431, and a slower request with 408. */
const requestLimits = {
  maxHeaderSize: 16 * 1024,
  headersTimeout: 10_000,
  requestTimeout: 40_000,
  connectionsCheckingInterval: 1_000,
}
/** A connection without traffic for this time is closed, while a request runs and between requests. */
const stalledTimeoutMs = 30_000
const idleTimeoutMs = 75_000
const maxConnections = 65_536
/**
 * A server that drains still answers requests for this time, and each answer closes its connection. A busy
 * caller may have sent its next request before it could know of the shutdown.
 */
const drainNoticeMs = 200

interface HttpServerOptions {
  /** Limits the memory of unfinished requests; servers may share it. A request beyond the limit gets 503. */
  readonly memory?: MemoryBudget
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
  onRejected?(problem: string): void
}

interface Answer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

/**
 * Creates the server of `/json` and `/healthcheck`, with the status codes and bodies of envoyproxy/ratelimit.
 * Any method and any Host are accepted: a proxy on the same machine may pass on the Host of its callers.
 */
export function createHttpServer(options: HttpServerOptions) {
  const { memory = new MemoryBudget(), onDefect } = options
  let drains = false
  const draining = () => drains || options.draining()
  const handle = createHandler(options)

  function serve(request: IncomingMessage, response: ServerResponse): void {
    const send = (answer: Answer) => {
      writeHead(response, answer, draining())
      response.end(answer.body)
    }
    const fail = (error: unknown) => {
      onDefect(parsePath(request), error)
      send(internalError)
    }
    const onBody = (body: Buffer) => {
      try {
        const answer = handle(request, body)
        if (answer instanceof Promise) answer.then(send, fail)
        else send(answer)
      } catch (error) {
        fail(error)
      }
    }
    // The answer ends only when the request does: a caller that still sends would otherwise lose the answer.
    const onReject = (answer: Answer) => {
      writeHead(response, answer, true)
      response.write(answer.body)
      request.once('end', () => response.end())
    }
    readBody(request, memory, onBody, onReject)
  }

  const server = createServer({ ...requestLimits, keepAliveTimeout: idleTimeoutMs }, serve)
  server.timeout = stalledTimeoutMs
  server.maxConnections = maxConnections
  return {
    /** Returns the bound port. Rejects with a system error, such as `EADDRINUSE`. */
    listen: (address: SharedAddress): Promise<number> => listenHttp(server, address),
    /**
     * Answers requests for `drainNoticeMs` more and closes each connection after its answer. Then accepts no
     * new connections, and aborts the requests that still run after `graceMs`.
     */
    async drain(graceMs: number): Promise<void> {
      drains = true
      await sleep(Math.min(graceMs, drainNoticeMs))
      await closeHttp(server, graceMs)
    },
  }
}

const noBody = Buffer.alloc(0)

/**
 * @param onReject called instead of `onBody` if the body is too long or no memory is left for it. The rest of
 * the body is dropped.
 */
function readBody(
  request: IncomingMessage,
  memory: MemoryBudget,
  onBody: (body: Buffer) => void,
  onReject: (answer: Answer) => void,
): void {
  const chunks: Buffer[] = []
  let bytes = 0
  let rejected = false
  function reject(answer: Answer): void {
    if (rejected) return
    rejected = true
    chunks.length = 0
    held.resize(0)
    onReject(answer)
  }
  const held = memory.reserve(() => reject(noMemory))
  request.on('data', (chunk: Buffer) => {
    if (rejected) return
    bytes += chunk.length
    if (bytes > maxJsonBodyBytes) return reject(badRequest)
    chunks.push(chunk)
    held.resize(bytes)
  })
  request.on('end', () => {
    if (rejected) return
    held.resize(0)
    const [first = noBody] = chunks
    onBody(chunks.length > 1 ? Buffer.concat(chunks, bytes) : first)
  })
  request.on('close', () => held.resize(0))
  // The caller has disconnected and needs no answer.
  request.on('error', () => {})
}

/** A synchronous decision of the limiter is answered synchronously. */
function createHandler({ limiter, clock, times, tracing, healthy, onRejected }: HttpServerOptions) {
  function timed(request: IncomingMessage, body: Buffer): Answer | Promise<Answer> {
    const startedMs = clock.monotonicMs()
    const record = () => times.record(clock.monotonicMs() - startedMs)
    const answer = json(request, body)
    if (answer instanceof Promise) return answer.finally(record)
    record()
    return answer
  }

  function json({ headers }: IncomingMessage, body: Buffer): Answer | Promise<Answer> {
    try {
      const request = decodeDecisionJson(body)
      if (tracing !== undefined) return traced(tracing, request, headers)
      const decision = limiter.decide(request)
      return decision instanceof Promise ? decision.then(toAnswer, reject) : toAnswer(decision)
    } catch (error) {
      return reject(error)
    }
  }

  function traced(
    tracing: Tracing,
    request: DecisionRequest,
    headers: IncomingMessage['headers'],
  ): Answer | Promise<Answer> {
    const span = startDecision(tracing, request, name => headers[name]?.toString())
    const answer = (decision: RateLimitDecision) =>
      span === undefined ? toAnswer(decision) : startJsonAnswer(span).run(() => toAnswer(decision))
    const decision = span ? span.run(() => limiter.decide(request, span)) : limiter.decide(request)
    return decision instanceof Promise ? decision.then(answer, reject) : answer(decision)
  }

  /** Answers a rejected call, and rethrows any other error, which is an internal one. */
  function reject(error: unknown): Answer {
    if (!(error instanceof RequestError || error instanceof CountersError)) throw error
    onRejected?.(error.message)
    return badRequest
  }

  return (request: IncomingMessage, body: Buffer) => {
    const path = parsePath(request)
    if (path === '/json') return timed(request, body)
    if (path === '/healthcheck') return healthy() ? isHealthy : isUnhealthy
    return notFound
  }
}

/** The target may begin with a scheme and a host. */
function parsePath({ url = '' }: IncomingMessage): string {
  return /^(?:https?:\/\/[^/?#]*)?([^?#]*)/i.exec(url)?.[1] || '/'
}

const textHeaders = { 'Content-Type': 'text/plain; charset=utf-8', 'X-Content-Type-Options': 'nosniff' }
const jsonHeaders = { 'Content-Type': 'application/json' }
const isHealthy: Answer = { status: 200, headers: textHeaders, body: 'OK' }
const isUnhealthy: Answer = { status: 500, headers: {}, body: '' }
const badRequest: Answer = { status: 400, headers: textHeaders, body: 'Bad Request\n' }
const notFound: Answer = { status: 404, headers: textHeaders, body: '404 page not found\n' }
const internalError: Answer = { status: 500, headers: textHeaders, body: 'Internal Server Error\n' }
const noMemory: Answer = { status: 503, headers: textHeaders, body: 'Service Unavailable\n' }

function toAnswer(decision: RateLimitDecision): Answer {
  return { status: decision.over ? 429 : 200, headers: jsonHeaders, body: encodeDecisionJson(decision) }
}

function writeHead(response: ServerResponse, { status, headers, body }: Answer, closes: boolean): void {
  response.writeHead(status, {
    ...headers,
    'Content-Length': Buffer.byteLength(body),
    ...(closes && { Connection: 'close' }),
  })
}
