import type { IncomingMessage, RequestListener, Server } from 'node:http'
import type { Socket } from 'node:net'
import type { Clock } from '@tollway/chassis/clock.ts'
import { addressKey } from '@tollway/chassis/limits/address-key.ts'
import { KeyedRateLimiter } from '@tollway/chassis/limits/rate-limiter.ts'
import type { Log } from '@tollway/chassis/log/log.ts'
import { createGuardedServer } from '@tollway/chassis/net/guarded-server.ts'
import type { ServerTls } from '@tollway/grpc/server.ts'
import type { BrokerStats } from '../broker-stats.ts'
import { Tally } from '../streams/tally.ts'
import type { AdminTokens } from './admin-tokens.ts'
import { createHttpsServer } from './https-server.ts'
import { pageListener, requestTimeoutMs, send } from './page-server.ts'
import { type StreamPagesOptions, streamPages, streamPagesHelp } from './stream-pages.ts'

export interface AdminServerOptions {
  readonly pages: StreamPagesOptions
  readonly tokens: AdminTokens
  /** Undefined for plain HTTP. */
  readonly tls: ServerTls | undefined
  readonly clock: Clock
  readonly stats: Pick<BrokerStats, 'failed'>
  readonly log: Log
}

/** Wrong tokens of an IPv4 address, or of the /64 network of an IPv6 address. */
const failuresPerMinute = 10
const maxConnections = 256
/** The maximum of one address, so that no address can take all. */
const maxConnectionsOfPeer = 64
/** The interval in which requests that do not arrive are ended. */
const connectionsCheckingInterval = 1_000
const maxHeaderBytes = 16 * 1024

/**
 * The admin API: the pages of streams, for callers with a token. An address with too many wrong tokens is
 * rejected for some seconds, even with a valid token, which limits the rate of guesses.
 */
export function createAdminServer({ pages, tokens, tls, ...options }: AdminServerOptions): Server {
  const { clock, stats, log } = options
  const failures = new KeyedRateLimiter(failuresPerMinute, clock)

  const listener: RequestListener = (request, response) => {
    const { headers, method = '', socket } = request
    const peer = addressKey(socket.remoteAddress ?? '')
    const refuse = (status: number, code: string, message: string) => {
      stats.failed('admin', code)
      send(response, status, `${message}\n`)
    }
    if (headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0) {
      response.setHeader('connection', 'close')
      return refuse(413, 'INVALID_ARGUMENT', 'a request must not have a body')
    }
    const waitMs = failures.waitMs(peer)
    if (waitMs > 0) {
      response.setHeader('retry-after', Math.ceil(waitMs / 1000))
      return refuse(429, 'RESOURCE_EXHAUSTED', 'this address has sent too many wrong tokens')
    }
    const verdict = tokens.judge(headers.authorization)
    if (verdict === 'unusable') {
      return refuse(503, 'UNAVAILABLE', 'the file of tokens cannot be used; the log has the reason')
    }
    if (verdict === 'refused') {
      failures.take(peer)
      log.warn('reject admin call: wrong token', { peer })
      response.setHeader('www-authenticate', 'Bearer')
      return refuse(401, 'UNAUTHENTICATED', 'a bearer token of the admin API is needed')
    }
    if (method !== 'GET' && method !== 'DELETE') {
      response.setHeader('allow', 'GET, DELETE')
      return refuse(405, 'UNIMPLEMENTED', 'only GET and DELETE are allowed')
    }
    if (method === 'DELETE') log.info('interrupt requests', { peer, path: request.url })
    serve(request, response)
  }

  const mayWatch = ({ headers }: IncomingMessage) => tokens.judge(headers.authorization) === 'accepted'
  const serve = pageListener(
    streamPages({ ...pages, mayWatch }),
    `no such page. The pages are:\n${streamPagesHelp}`,
  )
  const limits = {
    maxHeaderSize: maxHeaderBytes,
    headersTimeout: requestTimeoutMs,
    requestTimeout: requestTimeoutMs,
    connectionsCheckingInterval,
  }
  const server =
    tls === undefined ? createGuardedServer(listener, limits) : createHttpsServer(tls, limits, listener)
  limitConnectionsOfPeers(server)
  server.maxConnections = maxConnections
  return server
}

function limitConnectionsOfPeers(server: Server): void {
  const connections = new Tally()
  server.prependListener('connection', (socket: Socket) => {
    const peer = addressKey(socket.remoteAddress ?? '')
    if (connections.take(peer, maxConnectionsOfPeer)) socket.once('close', () => connections.release(peer))
    else socket.destroy()
  })
}
