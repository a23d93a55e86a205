import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { Tracing } from '@tollway/chassis/tracing.ts'
import { CountersError } from '../counters/counters.ts'
import { type Decision, RequestError } from '../limiter/decision.ts'
import type { Limiter } from '../limiter/limiter.ts'
import { fromHttpHeaders } from '../tracing/call-headers.ts'
import { startDecision, startJsonAnswer } from '../tracing/spans.ts'
import { parseRequestJson, toResponseJson } from './json-messages.ts'

/** A longer body of /json is refused. */
export const maxBodyBytes = 1024 * 1024

export interface HttpServerOptions {
  readonly limiter: Limiter
  readonly tracing?: Tracing | undefined
  readonly healthy: () => boolean
  /** Whether the process is about to end: callers then get each answer with the end of their connection. */
  readonly draining: () => boolean
  /** Told of every defect; the process goes on. */
  onDefect(path: string, error: unknown): void
}

/** `/json` and `/healthcheck`, with the reference's status codes and bodies; any method, as there. */
export function createHttpServer(options: HttpServerOptions): Server {
  const server = createServer((request, response) => {
    const path = pathOf(request)
    if (options.draining()) response.setHeader('connection', 'close')
    if (path === '/healthcheck') return healthcheck(options.healthy(), response)
    if (path !== '/json') return text(response, 404, '404 page not found\n')
    readBody(request, body => json(options, body, request, response))
  })
  server.requestTimeout = 30_000
  server.headersTimeout = 10_000
  return server
}

function pathOf({ url = '' }: IncomingMessage): string {
  const end = url.indexOf('?')
  return end === -1 ? url : url.slice(0, end)
}

function healthcheck(healthy: boolean, response: ServerResponse): void {
  if (healthy) text(response, 200, 'OK')
  else response.writeHead(500).end()
}

/** Answers at once when the limiter does. */
function json(
  options: HttpServerOptions,
  body: Buffer | undefined,
  incoming: IncomingMessage,
  response: ServerResponse,
): void {
  const request = body && parseRequestJson(body)
  if (request === undefined) {
    text(response, 400, badRequest)
    return
  }
  const { limiter, tracing } = options
  const span = tracing && startDecision(tracing, request, fromHttpHeaders(incoming.headers))
  const answer = (decision: Decision) => {
    const respond = () => send(response, decision.over ? 429 : 200, jsonHeaders, toResponseJson(decision))
    if (span) startJsonAnswer(span).run(respond)
    else respond()
  }
  const fail = (error: unknown) => {
    if (error instanceof RequestError || error instanceof CountersError) {
      text(response, 400, badRequest)
      return
    }
    options.onDefect('/json', error)
    if (!response.headersSent) text(response, 500, 'Internal Server Error\n')
  }
  try {
    const decision = span ? span.run(() => limiter.decide(request, span)) : limiter.decide(request)
    if (decision instanceof Promise) decision.then(answer).catch(fail)
    else answer(decision)
  } catch (error) {
    fail(error)
  }
}

/**
 * Hands over the body; undefined as soon as it is too long. What is too long is read on and dropped: a caller
 * that is cut off while it writes never sees its answer. Of a body that is cut off nothing is heard again.
 *
 * By events: to iterate over the request costs 2 µs or more of the 31 that a call costs, of which node:http
 * itself takes 20.
 */
function readBody(request: IncomingMessage, done: (body: Buffer | undefined) => void): void {
  const chunks: Buffer[] = []
  let bytes = 0
  request.on('data', (chunk: Buffer) => {
    const wasAllowed = bytes <= maxBodyBytes
    bytes += chunk.length
    if (bytes <= maxBodyBytes) chunks.push(chunk)
    else if (wasAllowed) {
      chunks.length = 0
      done(undefined)
    }
  })
  request.on('end', () => {
    if (bytes <= maxBodyBytes) done(chunks.length === 1 ? chunks[0] : Buffer.concat(chunks))
  })
}

const badRequest = 'Bad Request\n'
const jsonHeaders = { 'content-type': 'application/json' }
const textHeaders = {
  'content-type': 'text/plain; charset=utf-8',
  'x-content-type-options': 'nosniff',
}

function text(response: ServerResponse, status: number, body: string): void {
  send(response, status, textHeaders, body)
}

/** With its length told, the body goes out in one write with the headers, and not in chunks after them. */
function send(
  response: ServerResponse,
  status: number,
  headers: Readonly<Record<string, string>>,
  body: string,
): void {
  response.writeHead(status, { ...headers, 'content-length': Buffer.byteLength(body) })
  response.end(body)
}

/** Rejects with a system error (`EADDRINUSE`, …) when the address cannot be bound. */
export function listenHttp(server: Server, host: string, port: number, reusePort: boolean): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen({ host, port, reusePort }, () => {
      server.off('error', reject)
      resolve()
    })
  })
}

/** Takes no new connection, lets running calls end for `graceMs`, and cuts the rest. */
export function closeHttp(server: Server, graceMs: number): Promise<void> {
  return new Promise(resolve => {
    const cut = setTimeout(() => server.closeAllConnections(), graceMs)
    server.close(() => {
      clearTimeout(cut)
      resolve()
    })
    server.closeIdleConnections()
  })
}
