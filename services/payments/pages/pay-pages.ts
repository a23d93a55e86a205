import { basename } from 'node:path/posix'
import type { FastifyInstance, FastifyPluginAsync, FastifyReply, FastifyRequest } from 'fastify'
import { parseForm } from '../domain/input/form.ts'
import { parseLocale } from '../domain/input/request-bodies.ts'
import { RejectedError, toRejection } from '../http/failure.ts'
import { queryOf } from '../http/servers/server.ts'
import { assets, pageHeaders } from './browser/assets.ts'
import type { PageAnswer } from './page-answers.ts'
import { createPayHandlers, type FormFields, type PayHandlersOptions } from './pay-handlers.ts'
import type { PageProblem } from './texts/texts.ts'
import { type ProblemPage, problemPage } from './views/problem-page.ts'

interface PayPagesOptions extends PayHandlersOptions {
  /** Called with errors that the page shows without details. They contain no card data. */
  readonly onError: (error: unknown, request: FastifyRequest) => void
}

/** A form has a card and a token of a few thousand characters. */
const maxBodyBytes = 32 * 1024

/**
 * Returns the Fastify plugin of the payment page, for payment links and point-of-sale links. Register it with
 * a prefix, `{prefix: '/pay'}`. The pages use relative addresses, so a proxy may serve them at another path.
 *
 * @throws RangeError at the registration if a secret is too short
 */
export function payPages(options: PayPagesOptions): FastifyPluginAsync {
  return async scope => {
    setUpScope(scope, options)
    addPages(scope, options)
    addAssets(scope)
  }
}

function setUpScope(scope: FastifyInstance, { onError }: PayPagesOptions): void {
  scope.addHook('onRequest', async (_, reply) => {
    reply.headers(pageHeaders)
  })
  scope.removeAllContentTypeParsers()
  const parser = { parseAs: 'string', bodyLimit: maxBodyBytes } as const
  scope.addContentTypeParser(
    'application/x-www-form-urlencoded',
    parser,
    async (_: unknown, body: string) => {
      const fields = parseForm(body)
      if (!fields.ok) throw new RejectedError(fields)
      return fields.value
    },
  )
  scope.setErrorHandler<Error & { statusCode?: number }>((error, request, reply) => {
    const status = toRejection(error)?.rejection.status ?? error.statusCode ?? 500
    if (status >= 500) onError(error, request)
    const problem = status >= 500 ? 'failed' : status === 429 ? 'too-many' : 'unreadable'
    return sendProblem(request, reply, status, problem)
  })
  scope.setNotFoundHandler((request, reply) => sendProblem(request, reply, 404, 'not-found'))
}

function addPages(scope: FastifyInstance, options: PayPagesOptions): void {
  const handlers = createPayHandlers(options)
  const answer = (request: FastifyRequest, reply: FastifyReply, given: PageAnswer) => {
    if ('error' in given) options.onError(given.error, request)
    return send(reply, given)
  }
  scope.get('/', async (request, reply) => {
    const path = request.url.split('?', 1)[0] ?? ''
    const query = queryOf(request)
    // The relative addresses in the pages need a path that ends with a slash.
    if (!path.endsWith('/')) return redirect(reply, `./${basename(path)}/${query === '' ? '' : `?${query}`}`)
    return answer(request, reply, await handlers.open(query))
  })
  const forms = { '/': 'pay', '/amount': 'chooseAmount', '/confirm': 'confirm' } as const
  for (const [path, name] of Object.entries(forms)) {
    scope.post<{ Body: FormFields | undefined }>(path, async (request, reply) => {
      if (isForeign(request)) return sendProblem(request, reply, 403, 'foreign-form')
      return answer(request, reply, await handlers[name](queryOf(request), request.body ?? {}, request.ip))
    })
    // A GET of the address of a form, for example after a reload, redirects to the first page.
    if (path !== '/') scope.get(path, (request, reply) => redirect(reply, `./?${queryOf(request)}`))
  }
  scope.get('/outcome', async (request, reply) => {
    const query = queryOf(request)
    const token = new URLSearchParams(query).get('outcome')
    return answer(request, reply, await handlers.showOutcome(query, token))
  })
}

function addAssets(scope: FastifyInstance): void {
  for (const { path, type, content } of Object.values(assets)) {
    scope.get(`/${path}`, (_, reply) =>
      reply.header('cache-control', 'public, max-age=31536000, immutable').type(type).send(content),
    )
  }
}

/**
 * Reports whether a page of another site submitted the form. This check is an addition: the service has no
 * sessions that another site could misuse, and a form needs a token of the service.
 */
function isForeign({ headers }: FastifyRequest): boolean {
  return headers['sec-fetch-site'] === 'cross-site'
}

function send(reply: FastifyReply, answer: PageAnswer): FastifyReply {
  if ('location' in answer) return redirect(reply, `./${answer.location}`)
  const { retryAfterMs } = answer
  if (retryAfterMs !== undefined) reply.header('retry-after', Math.ceil(retryAfterMs / 1000))
  return reply.code(answer.status).type('text/html; charset=utf-8').send(answer.page)
}

// Uses status 303, after which browsers load the next page with GET, whatever the method was (RFC 9110,
// section 15.4.4).
function redirect(reply: FastifyReply, location: string): FastifyReply {
  return reply.code(303).header('location', location).send()
}

function sendProblem(
  request: FastifyRequest,
  reply: FastifyReply,
  status: number,
  problem: PageProblem,
): FastifyReply {
  const { prefix } = request.server
  const depth =
    request.url
      .split('?', 1)[0]
      ?.slice(prefix.length + 1)
      .split('/').length ?? 1
  const page: ProblemPage = {
    locale: parseLocale(new URLSearchParams(queryOf(request)).get('locale')),
    base: depth > 1 ? '../'.repeat(depth - 1) : './',
  }
  return reply.code(status).type('text/html; charset=utf-8').send(problemPage(problem, page))
}
