import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { fromJson } from '@bufbuild/protobuf'
import { RateLimitRequestSchema } from '@tollway/proto/envoy/service/ratelimit/v3/rls'
import { CountersError } from '../counters/counters.ts'
import { RequestError } from '../limiter/decision.ts'
import type { Limiter } from '../limiter/limiter.ts'
import { toDecisionRequest, toResponseJson } from './messages.ts'
import { hasTooManyPartsJson } from './request-parts.ts'

/** A longer body of /json is refused. */
export const maxBodyBytes = 1024 * 1024

export interface HttpServerOptions {
  readonly limiter: Limiter
  readonly healthy: () => boolean
  /** Whether the process is about to end: callers then get each answer with the end of their connection. */
  readonly draining: () => boolean
  /** Told of every defect; the process goes on. */
  onDefect(path: string, error: unknown): void
}

/** `/json` and `/healthcheck`, with the reference's status codes and bodies; any method, as there. */
export function createHttpServer(options: HttpServerOptions): Server {
  const server = createServer((request, response) => {
    const path = (request.url ?? '').split('?')[0]
    if (options.draining()) response.setHeader('connection', 'close')
    if (path === '/healthcheck') return healthcheck(options.healthy(), response)
    if (path !== '/json') return text(response, 404, '404 page not found\n')
    json(options, request, response).catch(error => {
      options.onDefect('/json', error)
      if (!response.headersSent) text(response, 500, 'Internal Server Error\n')
    })
  })
  server.requestTimeout = 30_000
  server.headersTimeout = 10_000
  return server
}

function healthcheck(healthy: boolean, response: ServerResponse): void {
  if (healthy) text(response, 200, 'OK')
  else response.writeHead(500).end()
}

async function json(options: HttpServerOptions, request: IncomingMessage, response: ServerResponse) {
  const body = await readBody(request)
  const message = body === undefined ? undefined : parse(body)
  if (message === undefined) return text(response, 400, 'Bad Request\n')
  try {
    const decision = await options.limiter.decide(toDecisionRequest(message))
    response.writeHead(decision.over ? 429 : 200, { 'content-type': 'application/json' })
    response.end(toResponseJson(decision))
  } catch (error) {
    if (!(error instanceof RequestError || error instanceof CountersError)) throw error
    text(response, 400, 'Bad Request\n')
  }
}

/**
 * undefined for a body that is too long, was cut off, or is no UTF-8. What is too long is read on and
 * dropped: a caller that is cut off while it writes never sees its answer.
 */
async function readBody(request: IncomingMessage): Promise<string | undefined> {
  const chunks: Buffer[] = []
  let bytes = 0
  try {
    const body: AsyncIterable<Buffer> = request.iterator({ destroyOnReturn: false })
    for await (const chunk of body) {
      bytes += chunk.length
      if (bytes > maxBodyBytes) {
        request.resume()
        return undefined
      }
      chunks.push(chunk)
    }
    return new TextDecoder('utf-8', { fatal: true }).decode(Buffer.concat(chunks))
  } catch {
    return undefined
  }
}

/** Both spellings of a field's name are taken; a name that is not one is refused. */
function parse(body: string) {
  try {
    const json = JSON.parse(body)
    return hasTooManyPartsJson(json) ? undefined : fromJson(RateLimitRequestSchema, json)
  } catch {
    return undefined
  }
}

function text(response: ServerResponse, status: number, body: string): void {
  response.writeHead(status, {
    'content-type': 'text/plain; charset=utf-8',
    'x-content-type-options': 'nosniff',
  })
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
