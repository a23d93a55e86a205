import { addressKey } from '@tollway/chassis/limits/address-key.ts'
import type { KeyedRateLimiter } from '@tollway/chassis/limits/rate-limiter.ts'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { CallGuard } from '../../call-guard.ts'
import { reject, rejectFor } from '../../domain/rejections.ts'
import type { Payments } from '../../operations/operation.ts'
import type { PaymentsEndpoint } from '../endpoint.ts'
import { paymentsEndpoints } from '../endpoints/endpoints.ts'
import { RejectedError } from '../failure.ts'
import { createOpenapiDocument, openapiPath } from '../openapi/openapi.ts'
import { accepts, readApiKey } from '../request-headers.ts'
import { type EndpointReply, type EndpointRequest, runEndpoint } from '../run-endpoint.ts'
import {
  createJsonServer,
  type JsonServer,
  type JsonServerOptions,
  queryOf,
  readParsedBody,
  sendAnswer,
  sendRejection,
} from './server.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** The API key in the Authorization header, which is not authenticated yet; null without one. */
    apiKey: string | null
  }
}

interface ApiServerOptions extends JsonServerOptions {
  readonly payments: Payments
  /** The limit of sign-ups for each address; null if sign-up is closed. */
  readonly signUps: Pick<KeyedRateLimiter, 'take'> | null
  /** The limits of calls; null if calls are not limited. */
  readonly guard: CallGuard | null
  /** Resolves with true if the database answers and the process is not shutting down. */
  readonly ready: () => Promise<boolean>
  /** Called for each answer that was stored for an earlier request with the same Idempotency-Key. */
  readonly onReplay: () => void
  /** Adds further routes to the server, such as the payment page. */
  readonly extend?: (app: FastifyInstance) => void
}

export function createApiServer(options: ApiServerOptions): JsonServer {
  const server = createJsonServer(options)
  const { app } = server
  app.decorateRequest('apiKey', null)
  const paths = new Map<string, Set<string>>()
  for (const endpoint of paymentsEndpoints) {
    const url = toRoute(endpoint.path)
    const methods = paths.get(url) ?? new Set(['OPTIONS'])
    for (const method of endpoint.method === 'GET' ? ['GET', 'HEAD'] : [endpoint.method]) methods.add(method)
    paths.set(url, methods)
    app.route({
      method: endpoint.method,
      url,
      onRequest: async (request, reply) => authorizeRequest(endpoint, request, reply, options),
      handler: (request, reply) => handle(endpoint, request, reply, options),
    })
  }
  addServicePages(server, options)
  options.extend?.(app)
  for (const url of ['/healthz', '/readyz', openapiPath]) paths.set(url, new Set(['GET', 'HEAD', 'OPTIONS']))
  app.setNotFoundHandler((request, reply) => answerNotFound(request, reply, [...paths]))
  app.addHook('onRequest', async (request, reply) => {
    // Answers QUERY here, because Fastify would otherwise check the content type before it reports a missing
    // route.
    if (request.is404 && request.method === 'QUERY') return answerNotFound(request, reply, [...paths])
  })
  return server
}

function toRoute(path: string): string {
  return path.replace(/\{(\w+)\}/g, ':$1')
}

/** Runs before the body is received. */
async function authorizeRequest(
  { kind, document }: PaymentsEndpoint,
  request: FastifyRequest,
  reply: FastifyReply,
  { signUps, guard }: ApiServerOptions,
): Promise<FastifyReply | undefined> {
  const { accept, authorization } = request.headers
  request.apiKey = readApiKey(authorization)
  const rejection = await guard?.admit(request.ip, kind === 'sign-up' ? null : request.apiKey)
  if (rejection) return sendRejection(reply, rejectFor(rejection.waitMs))
  const type = document.produces ?? 'application/json'
  if (!accepts(type, accept)) throw new RejectedError(reject('not_acceptable', `Responses are ${type} only.`))
  if (kind !== 'sign-up') {
    if (request.apiKey === null) throw new RejectedError(reject('unauthorized'))
  } else if (signUps === null) throw new RejectedError(reject('signup_closed'))
  return undefined
}

async function handle(
  endpoint: PaymentsEndpoint,
  request: FastifyRequest,
  reply: FastifyReply,
  { payments, signUps, guard, onReplay }: ApiServerOptions,
): Promise<FastifyReply> {
  if (endpoint.kind === 'sign-up') {
    const waitMs = signUps?.take(addressKey(request.ip)) ?? 0
    if (waitMs > 0) return sendRejection(reply, rejectFor(waitMs))
  }
  const parsed = read(request)
  const { apiKey } = parsed
  const run = () => runEndpoint(payments, endpoint, parsed)
  const reached =
    guard === null || apiKey === null || endpoint.kind === 'sign-up'
      ? await run()
      : await guard.lookUp({ address: request.ip, apiKey }, run, isUnknownKey)
  if ('waitMs' in reached) return sendRejection(reply, rejectFor(reached.waitMs))
  const { outcome, replayed = false } = reached
  if (!outcome.ok) return sendRejection(reply, outcome)
  if (replayed) {
    onReplay()
    reply.header('idempotency-replayed', 'true')
  }
  return sendAnswer(reply, outcome.value)
}

function isUnknownKey({ outcome }: EndpointReply): boolean {
  return !outcome.ok && outcome.rejection.code === 'unauthorized'
}

function read(request: FastifyRequest): EndpointRequest {
  const { headers } = request
  return {
    apiKey: request.apiKey,
    idempotencyKey: joinHeader(headers['idempotency-key']),
    params: request.params as Readonly<Record<string, string>>,
    query: queryOf(request),
    body: readParsedBody(request),
    // The public client, which sends `x-client`, always accepts JSON but cannot parse a body in the answer to
    // a PUT.
    wantsChanged: headers.accept !== undefined && headers['x-client'] === undefined,
  }
}

function joinHeader(value: string | readonly string[] | undefined): string | null {
  return value === undefined ? null : typeof value === 'string' ? value : value.join(',')
}

function addServicePages({ app }: JsonServer, { ready }: ApiServerOptions): void {
  const document = JSON.stringify(createOpenapiDocument())
  app.get(openapiPath, (_, reply) => sendAnswer(reply, { status: 200, body: document }))
  app.get('/healthz', (_, reply) => sendAnswer(reply, { status: 200, body: '{"status":"alive"}' }))
  app.get('/readyz', async (_, reply) => {
    if (await ready()) return sendAnswer(reply, { status: 200, body: '{"status":"ready"}' })
    return sendRejection(reply, reject('unavailable'))
  })
}

/**
 * Answers a request without a route: 404 for an unknown path, else 405 with the allowed methods. Answers
 * OPTIONS with 204 and the allowed methods, without CORS headers.
 */
function answerNotFound(
  request: FastifyRequest,
  reply: FastifyReply,
  paths: readonly (readonly [url: string, methods: ReadonlySet<string>])[],
): FastifyReply {
  const path = request.url.split('?', 1)[0]?.replace(/(?<=.)\/$/, '') ?? ''
  const found = paths.filter(([url]) => matches(url, path)).map(([, methods]) => methods)
  if (found.length === 0) return sendRejection(reply, reject('not_found'))
  reply.header('allow', found.flatMap(methods => [...methods]).join(', '))
  if (request.method === 'OPTIONS') return reply.code(204).send()
  return sendRejection(reply, reject('method_not_allowed'))
}

function matches(url: string, path: string): boolean {
  const expected = url.split('/')
  const given = path.split('/')
  return (
    expected.length === given.length &&
    expected.every((part, index) => part.startsWith(':') || part === given[index])
  )
}
