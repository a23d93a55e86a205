import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { fromJson, toJson } from '@bufbuild/protobuf'
import {
  RateLimitRequestSchema,
  RateLimitResponse_Code,
  RateLimitResponseSchema,
} from '@tollway/proto/envoy/service/ratelimit/v3/rls'
import { CountersError } from '../counters/counters.ts'
import { RequestError } from '../limiter/decision.ts'
import type { Limiter } from '../limiter/limiter.ts'
import { toDecisionRequest, toResponse } from './messages.ts'

/** A longer body of /json is refused. */
export const maxBodyBytes = 1024 * 1024

export interface HttpServerOptions {
  readonly limiter: Limiter
  readonly healthy: () => boolean
  /** Told of every defect; the process goes on. */
  onDefect(path: string, error: unknown): void
}

/** `/json` and `/healthcheck`, with the reference's status codes and bodies; any method, as there. */
export function createHttpServer(options: HttpServerOptions): Server {
  const server = createServer((request, response) => {
    const path = (request.url ?? '').split('?')[0]
    if (!options.healthy()) response.setHeader('connection', 'close')
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
    const answer = toResponse(await options.limiter.decide(toDecisionRequest(message)))
    const status = answer.overallCode === RateLimitResponse_Code.OVER_LIMIT ? 429 : 200
    response.writeHead(status, { 'content-type': 'application/json' })
    response.end(JSON.stringify(toJson(RateLimitResponseSchema, answer)))
  } catch (error) {
    if (!(error instanceof RequestError || error instanceof CountersError)) throw error
    text(response, 400, 'Bad Request\n')
  }
}

/** undefined for a body that is too long or was cut off. */
async function readBody(request: IncomingMessage): Promise<string | undefined> {
  const chunks: Buffer[] = []
  let bytes = 0
  try {
    for await (const chunk of request as AsyncIterable<Buffer>) {
      bytes += chunk.length
      if (bytes > maxBodyBytes) return undefined
      chunks.push(chunk)
    }
  } catch {
    return undefined
  }
  return Buffer.concat(chunks).toString('utf8')
}

/** Both spellings of a field's name are taken; a name that is not one is refused. */
function parse(body: string) {
  try {
    return fromJson(RateLimitRequestSchema, JSON.parse(body))
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
