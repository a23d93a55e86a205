import type { IncomingMessage, RequestListener, Server, ServerOptions, ServerResponse } from 'node:http'
import type { Server as HttpsServer } from 'node:https'
import type { Socket } from 'node:net'
import type { TLSSocket } from 'node:tls'
import type { Clock } from '@tollway/chassis/clock.ts'
import { addressKey } from '@tollway/chassis/limits/address-key.ts'
import { KeyedRateLimiter } from '@tollway/chassis/limits/rate-limiter.ts'
import type { Log } from '@tollway/chassis/log/log.ts'
import { answerClientErrors, type ClientErrorStatus } from '@tollway/chassis/net/client-errors.ts'
import { createGuardedServer, guarded } from '@tollway/chassis/net/guarded-server.ts'
import { contextOptions, findClientProblem } from '@tollway/grpc/server/tls-handshakes.ts'
import type { ServerTls } from '@tollway/grpc/server.ts'
import type { BrokerStats } from '../broker-stats.ts'
import { KeyedCounter } from '../streams/keyed-counter.ts'
import { type AdminErrorCode, PageError } from './admin-errors.ts'
import type { AdminTokens } from './admin-tokens.ts'
import { jsonType, pageListener, requestTimeoutMs } from './page-server.ts'
import { type StreamPagesOptions, streamPages, streamPagesHelp } from './stream-pages.ts'

export interface AdminServerOptions {
  readonly pages: StreamPagesOptions
  readonly tokens: Pick<AdminTokens, 'check'>
  /** Undefined for HTTP without TLS. */
  readonly tls: ServerTls | undefined
  readonly clock: Clock
  readonly stats: Pick<BrokerStats, 'failed'>
  readonly log: Log
}

/** The limit for wrong tokens of one IPv4 address, or of the /64 network of an IPv6 address. */
const failuresPerMinute = 10
const maxConnections = 256
/** The limit of connections of one address, so that no address can take all. */
const maxConnectionsOfPeer = 64
/** Late requests are found and ended in this interval. */
const connectionsCheckingInterval = 1_000
const maxHeaderBytes = 16 * 1024

/** The names of some errors in the metric `errors_total`; others count as UNKNOWN. */
const statusNames: Partial<Record<AdminErrorCode, string>> = {
  body: 'INVALID_ARGUMENT',
  'too-many': 'RESOURCE_EXHAUSTED',
  'no-tokens': 'UNAVAILABLE',
  unauthenticated: 'UNAUTHENTICATED',
  method: 'UNIMPLEMENTED',
}

const clientErrors: Readonly<Record<ClientErrorStatus, readonly [code: AdminErrorCode, message: string]>> = {
  400: ['invalid', 'the request is not valid HTTP'],
  408: ['deadline', `the request has not arrived within ${requestTimeoutMs / 1000} s`],
  431: ['too-large', `the path and the headers have more than ${maxHeaderBytes} bytes`],
}

const errorHeaders = { 'content-type': jsonType, 'cache-control': 'no-store' }
const errorBody = (code: AdminErrorCode, message: string) => `${JSON.stringify({ code, message })}\n`

const clientErrorAnswer = (status: ClientErrorStatus) => ({
  headers: errorHeaders,
  body: errorBody(...clientErrors[status]),
})

function sendError(response: ServerResponse, { status, code, message, headers }: PageError): void {
  response.writeHead(status, { ...errorHeaders, ...headers })
  response.end(errorBody(code, message))
}

/**
 * Serves the pages of streams to callers with a token. An address with too many wrong tokens is rejected for
 * some seconds, even with a valid one, which limits the rate of guesses.
 */
export function createAdminServer({ pages, tokens, tls, ...options }: AdminServerOptions): Server {
  const { clock, stats, log } = options
  const failures = new KeyedRateLimiter(failuresPerMinute, clock)

  /** Returns undefined if the request is not rejected before its page is looked up. */
  function findRejection({ headers, method = '', socket }: IncomingMessage): PageError | undefined {
    if (headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0) {
      return new PageError('body', 'a request must not have a body', { connection: 'close' })
    }
    const peer = addressKey(socket.remoteAddress ?? '')
    const waitMs = failures.waitMs(peer)
    if (waitMs > 0) {
      const wait = { 'retry-after': `${Math.ceil(waitMs / 1000)}` }
      return new PageError('too-many', 'this address has sent too many wrong tokens', wait)
    }
    const verdict = tokens.check(headers.authorization)
    if (verdict === 'unusable') {
      return new PageError('no-tokens', 'the file of tokens cannot be used; the log has the reason')
    }
    if (verdict === 'rejected') {
      failures.take(peer)
      log.warn('reject admin call', { peer, reason: 'wrong token' })
      const challenge = { 'www-authenticate': 'Bearer' }
      return new PageError('unauthenticated', 'a bearer token of the admin API is needed', challenge)
    }
    if (method === 'GET' || method === 'DELETE') return undefined
    return new PageError('method', 'only GET and DELETE are allowed', { allow: 'GET, DELETE' })
  }

  const listener: RequestListener = (request, response) => {
    const rejection = findRejection(request)
    if (rejection !== undefined) {
      stats.failed('admin', statusNames[rejection.code] ?? 'UNKNOWN')
      return sendError(response, rejection)
    }
    const { method, url: path, socket } = request
    if (method === 'DELETE')
      log.info('interrupt requests', { peer: addressKey(socket.remoteAddress ?? ''), path })
    serve(request, response)
  }

  const mayWatch = ({ headers }: IncomingMessage) => tokens.check(headers.authorization) === 'accepted'
  const serve = pageListener(
    streamPages({ ...pages, mayWatch }),
    `no such page. The pages are:\n${streamPagesHelp.trimEnd()}`,
    sendError,
  )
  const limits = {
    maxHeaderSize: maxHeaderBytes,
    headersTimeout: requestTimeoutMs,
    requestTimeout: requestTimeoutMs,
    connectionsCheckingInterval,
  }
  const server =
    tls === undefined ? createGuardedServer(listener, limits) : createHttpsServer(tls, limits, listener)
  answerClientErrors(server, clientErrorAnswer)
  limitConnectionsOfPeers(server)
  server.maxConnections = maxConnections
  return server
}

function limitConnectionsOfPeers(server: Server): void {
  const connections = new KeyedCounter()
  server.prependListener('connection', (socket: Socket) => {
    const peer = addressKey(socket.remoteAddress ?? '')
    if (connections.take(peer, maxConnectionsOfPeer)) socket.once('close', () => connections.release(peer))
    else socket.destroy()
  })
}

const handshakeTimeoutMs = 10_000

/** Uses the certificates of a gRPC server, also after a change, and its checks of client certificates. */
function createHttpsServer(tls: ServerTls, options: ServerOptions, listener: RequestListener): HttpsServer {
  const { createServer } = process.getBuiltinModule('node:https')
  const server: HttpsServer = createServer(
    {
      ...options,
      ...contextOptions(tls),
      requestCert: tls.requireClientCert,
      rejectUnauthorized: true,
      handshakeTimeout: handshakeTimeoutMs,
    },
    guarded(listener),
  )
  server.prependListener('secureConnection', (socket: TLSSocket) => {
    const error = findClientProblem(tls, socket)
    if (error === undefined) return
    tls.onRejected?.(error, socket.remoteAddress ?? '')
    socket.destroy()
  })
  server.once(
    'close',
    tls.onChange(() => server.setSecureContext(contextOptions(tls))),
  )
  return server
}
