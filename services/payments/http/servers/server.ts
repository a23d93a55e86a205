import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Clock } from '@tollway/chassis/clock.ts'
import type { Log } from '@tollway/chassis/log/log.ts'
import type { Cidr } from '@tollway/chassis/net/cidr.ts'
import { answerClientErrors, type ClientErrorStatus } from '@tollway/chassis/net/client-errors.ts'
import type { TlsFiles } from '@tollway/chassis/net/tls.ts'
import Fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify'
import { describeError } from '../../describe-error.ts'
import { newId, type RandomBytes } from '../../domain/ids.ts'
import { type Rejected, reject } from '../../domain/rejections.ts'
import { answerRejection, type HttpAnswer } from '../answer.ts'
import { RejectedError, toRejection } from '../failure.ts'
import { type Body, maxRequestBytes, noBody, parseBody } from '../read-body.ts'
import { chooseRequestId } from '../request-headers.ts'

/** The options of a JSON server. All JSON servers have the same request ids, limits, errors and shutdown. */
export interface JsonServerOptions {
  readonly log: Log
  readonly clock: Clock
  readonly randomBytes: RandomBytes
  /** Called after each answer. `route` is the pattern of the path, such as `/merchants/:merchantId`. */
  readonly onAnswer: (answer: AnsweredRequest) => void
  /** The certificate files, read again when they change. Without them, the server uses plain HTTP. */
  readonly tls?: TlsFiles | undefined
  readonly timeouts?: Timeouts
  /**
   * The proxies whose `X-Forwarded-For` header is used. In requests of other senders, the header is ignored.
   */
  readonly trustedProxies?: readonly Cidr[]
  /** Whether TLS rejects clients without a certificate that the CA in `tls` has issued. */
  readonly demandsCertificate?: boolean
}

/** How long a client may take to send a request, so that slow clients do not occupy connections. */
interface Timeouts {
  readonly requestMs: number
  readonly headersMs: number
  /** The interval in which Node checks for requests that take too long. */
  readonly checkIntervalMs: number
}

/** The connection of an incomplete request is closed after at most 25 s. */
const defaultTimeouts: Timeouts = { requestMs: 20_000, headersMs: 10_000, checkIntervalMs: 5_000 }

interface AnsweredRequest {
  readonly route: string
  readonly method: string
  readonly status: number
  readonly durationMs: number
}

export interface JsonServer {
  /** Add routes before `listen`. Handlers throw `RejectedError`, or use `sendAnswer` or `sendRejection`. */
  readonly app: FastifyInstance
  /** @throws Error of the operating system if the server cannot listen on the address */
  listen(address: { readonly host: string; readonly port: number }): Promise<number>
  /** Waits for running requests, and closes their connections after `timeoutMs`. */
  close(timeoutMs: number): Promise<void>
}

const keepAliveTimeoutMs = 65_000
const maxHeaderBytes = 16 * 1024
const maxParamCharacters = 200
/** A connection is closed after this many requests, so that clients also connect to new processes. */
const maxRequestsPerConnection = 10_000

const unknownRoute = 'none'

export function createJsonServer(options: JsonServerOptions): JsonServer {
  const { log, clock, randomBytes, onAnswer, timeouts = defaultTimeouts, trustedProxies = [] } = options
  let draining = false
  const app = Fastify({
    logger: false,
    bodyLimit: maxRequestBytes,
    trustProxy:
      trustedProxies.length > 0 && trustedProxies.map(({ address, prefix }) => `${address}/${prefix}`),
    requestTimeout: timeouts.requestMs,
    keepAliveTimeout: keepAliveTimeoutMs,
    maxRequestsPerSocket: maxRequestsPerConnection,
    return503OnClosing: false,
    forceCloseConnections: 'idle',
    routerOptions: {
      ignoreTrailingSlash: true,
      maxParamLength: maxParamCharacters,
      // Fastify does not parse the query, because `runEndpoint` does.
      querystringParser: () => ({}),
    },
    genReqId: request => chooseRequestId(request.headers['x-request-id'], clock.nowMs(), randomBytes),
    // Does nothing, because `answerClientErrors` answers these errors.
    clientErrorHandler: () => {},
    frameworkErrors: (error, request, reply) => {
      sendError(reply, request, error, log)
    },
    ...serverOptions(options, timeouts),
  })
  answerClientErrors(app.server, status => ({
    headers: {
      'content-type': 'application/json; charset=utf-8',
      'x-request-id': newId(clock.nowMs(), randomBytes),
    },
    body: JSON.stringify({ code: 'malformed_body', message: clientErrors[status] }),
  }))
  warnOfUntrustedProxies(app, log)
  const stopFollowing = followCertificates(app.server, options.tls)
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('*', { parseAs: 'buffer' }, async (request: FastifyRequest, bytes: Buffer) => {
    const body = parseBody(request.headers['content-type'], bytes)
    if (!body.ok) throw new RejectedError(body)
    return body.value
  })
  app.setErrorHandler((error, request, reply) => sendError(reply, request, error, log))
  app.addHook('onRequest', async (request, reply) => {
    reply.header('x-request-id', request.id)
    reply.header('cache-control', 'no-store')
    reply.header('x-content-type-options', 'nosniff')
    if (request.protocol === 'https') reply.header('strict-transport-security', hsts)
    if (draining) reply.header('connection', 'close')
  })
  app.addHook('onResponse', async (request, reply) => {
    const route = request.routeOptions.url ?? unknownRoute
    const { method } = request
    const durationMs = reply.elapsedTime
    onAnswer({ route, method, status: reply.statusCode, durationMs })
    const { id: requestId, ip: client } = request
    log.debug('handle request', { method, route, status: reply.statusCode, durationMs, requestId, client })
  })
  return {
    app,
    async listen({ host, port }) {
      await app.listen({ host, port })
      return (app.server.address() as AddressInfo).port
    },
    async close(timeoutMs) {
      draining = true
      stopFollowing()
      const deadline = setTimeout(() => app.server.closeAllConnections(), timeoutMs)
      await app.close()
      clearTimeout(deadline)
    },
  }
}

function serverOptions({ tls, demandsCertificate = false }: JsonServerOptions, timeouts: Timeouts) {
  const http = {
    headersTimeout: timeouts.headersMs,
    connectionsCheckingInterval: timeouts.checkIntervalMs,
    maxHeaderSize: maxHeaderBytes,
  }
  if (tls === undefined) return { http }
  const certificates = demandsCertificate ? { requestCert: true, rejectUnauthorized: true } : {}
  return { https: { ...http, ...contextOptions(tls), ...certificates } } as unknown as { http: typeof http }
}

function contextOptions(tls: TlsFiles) {
  const { identity, ca } = tls.credentials()
  return { ...identity, ...(ca === undefined ? {} : { ca }), minVersion: 'TLSv1.2' as const }
}

/**
 * Logs a warning when a request has X-Forwarded-For from a proxy that is not trusted: all its clients then
 * share one address and the limits of that address. Warns only once, because any client can send the header.
 */
function warnOfUntrustedProxies(app: FastifyInstance, log: Log): void {
  let hasWarned = false
  app.addHook('onRequest', async request => {
    if (hasWarned || request.headers['x-forwarded-for'] === undefined || (request.ips?.length ?? 1) > 1)
      return
    hasWarned = true
    log.warn('ignore X-Forwarded-For', {
      from: request.ip,
      reason: 'the address is not in TRUSTED_PROXIES',
    })
  })
}

/** Uses changed certificate files for new connections. Returns a function that ends this. */
function followCertificates(server: Server, tls: TlsFiles | undefined): () => void {
  if (tls === undefined) return () => {}
  return tls.onChange(() => {
    const secure = server as unknown as { setSecureContext(context: object): void }
    secure.setSecureContext(contextOptions(tls))
  })
}

export function readParsedBody(request: FastifyRequest): Body {
  return (request.body as Body | undefined) ?? noBody
}

/** Returns the query of a request, without the question mark. */
export function queryOf({ url }: FastifyRequest): string {
  const question = url.indexOf('?')
  return question === -1 ? '' : url.slice(question + 1)
}

export function sendAnswer(reply: FastifyReply, { status, body, type }: HttpAnswer): FastifyReply {
  reply.code(status)
  if (body === '') return reply.send()
  return reply.header('content-type', `${type ?? 'application/json'}; charset=utf-8`).send(body)
}

/** Strict-Transport-Security (RFC 6797) for a year, without subdomains, which can have other owners. */
const hsts = `max-age=${365 * 24 * 60 * 60}`

/** The Retry-After of a 429 or 503 whose wait is not known. */
const defaultRetrySeconds = 1

export function sendRejection(reply: FastifyReply, rejected: Rejected): FastifyReply {
  const { status, retryAfterMs: waitMs } = rejected.rejection
  if (status === 401) reply.header('www-authenticate', 'Basic realm="payments", charset="UTF-8"')
  const seconds = waitMs === undefined ? defaultRetrySeconds : Math.ceil(waitMs / 1000)
  if (status === 503 || status === 429 || waitMs !== undefined) reply.header('retry-after', seconds)
  return sendAnswer(reply, answerRejection(rejected))
}

function sendError(reply: FastifyReply, request: FastifyRequest, error: unknown, log: Log): FastifyReply {
  // Set here too, because Fastify runs no hooks for a path that it cannot decode.
  reply.header('x-request-id', request.id)
  const rejected = toRejection(error)
  if (rejected !== undefined) {
    const { status } = rejected.rejection
    if (status >= 500)
      log.warn('handle request failed', { requestId: request.id, error: describeError(error) })
    return sendRejection(reply, rejected)
  }
  log.error('handle request failed', { requestId: request.id, error: describeError(error) })
  const { code, status, message } = reject('internal_error').rejection
  return sendAnswer(reply, { status, body: JSON.stringify({ code, message, requestId: request.id }) })
}

const clientErrors: Readonly<Record<ClientErrorStatus, string>> = {
  400: 'The request is not valid HTTP.',
  408: 'The request took too long.',
  431: 'The headers are larger than the limit.',
}
