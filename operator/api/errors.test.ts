import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { connect } from 'node:net'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { after, describe, test } from 'node:test'
import { answerClientErrors } from '@tollway/chassis/net/client-errors.ts'
import { closeHttp, listenHttp } from '@tollway/chassis/net/listen-http.ts'
import { QueryError, type QueryErrorCode } from '../pods/query-error.ts'
import { serveApi } from '../testing/serve-api.ts'
import type { CallerAuthentication } from './access.ts'
import { clientErrorAnswer } from './answers.ts'
import { ApiError, type ApiErrorCode, apiErrors, busy } from './errors.ts'
import * as examples from './examples.ts'
import type { ApiSources } from './sources.ts'

const alice = '/counters?domain=checkout&descriptor=user=alice'
const entries = [{ key: 'user', value: 'alice' }]

type Served = Awaited<ReturnType<typeof serveApi>>
interface Case {
  readonly code: ApiErrorCode
  readonly status: number
  readonly serve?: Parameters<typeof serveApi>[1]
  /** Sends the request whose answer is the error. */
  readonly send: (served: Served) => Promise<{
    readonly status: number
    readonly body: { readonly error: { readonly code: string } }
  }>
}

/** Sends bytes, and resolves with the answer when the connection ends. */
async function sendBytes({ port }: Pick<Served, 'port'>, bytes: string) {
  const socket = connect(port, '127.0.0.1')
  socket.on('error', () => {}).write(bytes)
  const [head = '', body = ''] = (await text(socket)).split('\r\n\r\n')
  return { status: Number(head.split(' ')[1]), body: JSON.parse(body) as { error: { code: string } } }
}

const ofPods = (code: QueryErrorCode, status: number): Case => ({
  code: code as ApiErrorCode,
  status,
  send({ ask, pods }) {
    pods.problem = new QueryError(code, 'the cause')
    return ask(alice)
  },
})

const rejecting = (error: Error): CallerAuthentication => ({ authenticate: () => Promise.reject(error) })
const without = (error: ApiError): CallerAuthentication => ({
  authenticate: async () => ({ name: 'alice', authorize: () => Promise.reject(error) }),
})
const applied =
  (error: ApiError): ApiSources['apply'] =>
  () =>
    Promise.reject(error)

/**
 * Errors of the authentication and of the sources are tested elsewhere, with a real API server and real
 * files.
 */
const cases: readonly Case[] = [
  { code: 'invalid', status: 400, send: ({ ask }) => ask('/counters') },
  { code: 'invalid', status: 400, send: served => sendBytes(served, 'garbage\r\n\r\n') },
  {
    code: 'invalid',
    status: 422,
    serve: { apply: applied(new ApiError('invalid', 'spec: is too long', { status: 422 })) },
    send: ({ post }) => post('/apply', examples.applyBodyExample),
  },
  {
    code: 'unauthenticated',
    status: 401,
    serve: { access: rejecting(new ApiError('unauthenticated', 'missing bearer token')) },
    send: ({ ask }) => ask('/domains'),
  },
  {
    code: 'forbidden',
    status: 403,
    serve: { access: without(new ApiError('forbidden', 'alice may not')) },
    send: ({ ask }) => ask('/domains'),
  },
  {
    code: 'other-site',
    status: 403,
    send: served =>
      sendBytes(
        served,
        'GET /api/v1/domains HTTP/1.1\r\nHost: localhost\r\nSec-Fetch-Site: same-site\r\nConnection: close\r\n\r\n',
      ),
  },
  { code: 'not-found', status: 404, send: ({ ask }) => ask('/nothing') },
  { code: 'not-found', status: 404, send: ({ ask }) => ask('/streams/preview?key=x') },
  { code: 'unknown-domain', status: 404, send: ({ ask }) => ask('/domains/x/rules') },
  { code: 'unknown-rule', status: 404, send: ({ ask }) => ask('/domains/checkout/top?rule=x') },
  { code: 'no-rule', status: 404, send: ({ ask }) => ask('/counters?domain=checkout&descriptor=ip=x') },
  { code: 'method', status: 405, send: ({ ask }) => ask('/counters/reset') },
  ofPods('deadline', 504),
  {
    code: 'changed',
    status: 409,
    serve: { apply: applied(new ApiError('changed', 'version: read it again')) },
    send: ({ post }) => post('/apply', { ...examples.applyBodyExample, version: '0' }),
  },
  {
    code: 'conflict',
    status: 409,
    serve: { apply: applied(new ApiError('conflict', 'checkout.yaml has just been changed')) },
    send: ({ post }) => post('/apply', examples.applyBodyExample),
  },
  ofPods('unlimited', 409),
  ofPods('switched-off', 409),
  ofPods('not-supported', 409),
  {
    code: 'too-large',
    status: 413,
    send: ({ post }) => post('/counters/reset', { domain: 'checkout', entries, pad: 'x'.repeat(600_000) }),
  },
  { code: 'too-large', status: 431, send: ({ ask }) => ask(`${alice}${'x'.repeat(300_000)}`) },
  {
    code: 'content-type',
    status: 415,
    send: ({ post }) => post('/counters/reset', {}, { 'content-type': 'text/plain' }),
  },
  { code: 'too-many', status: 429, serve: { limits: { maxCalls: 0 } }, send: ({ ask }) => ask(alice) },
  ofPods('too-many', 429),
  {
    code: 'internal',
    status: 500,
    serve: { access: rejecting(new Error('a defect')) },
    send: ({ ask }) => ask('/domains'),
  },
  {
    code: 'proxy',
    status: 501,
    serve: { apply: applied(new ApiError('proxy', 'not possible with proxy-url')) },
    send: ({ post }) => post('/apply', examples.applyBodyExample),
  },
  {
    code: 'stopping',
    status: 503,
    send({ api, ask }) {
      api.close()
      return ask('/domains')
    },
  },
  ofPods('no-pods', 503),
  ofPods('backend-failed', 503),
  {
    code: 'broker-failed',
    status: 503,
    serve: { previewProblem: 'broker-0 does not answer' },
    send: ({ ask }) => ask('/streams/preview?key=x'),
  },
  {
    code: 'reviews-failed',
    status: 503,
    serve: { access: rejecting(busy('reviews-failed', 'the API server did not answer')) },
    send: ({ ask }) => ask('/domains'),
  },
  {
    code: 'api-server',
    status: 503,
    serve: { apply: applied(new ApiError('api-server', 'etcdserver: leader changed')) },
    send: ({ post }) => post('/apply', examples.applyBodyExample),
  },
]

describe('an error of the catalogue is the answer to a request', () => {
  const seen = new Set<string>()
  after(() => assert.deepEqual([...seen].sort(), pairsOf(apiErrors)))

  for (const [index, { code, status, serve, send }] of cases.entries())
    test(`${code} ${status}, case ${index + 1}`, async t => {
      const { status: found, body } = await send(await serveApi(t, serve))
      assert.deepEqual([body.error.code, found], [code, status])
      seen.add(`${code} ${status}`)
    })

  test('deadline 408, for a request that does not arrive', async t => {
    const server = answerClientErrors(
      createServer({ headersTimeout: 50, connectionsCheckingInterval: 10 }),
      clientErrorAnswer,
    )
    const port = await listenHttp(server, { host: '127.0.0.1', port: 0 })
    t.after(() => closeHttp(server, 0))
    const { status, body } = await sendBytes({ port }, 'GET /api/v1/domains HTTP/1.1\r\n')
    assert.deepEqual([body.error.code, status], ['deadline', 408])
    seen.add('deadline 408')
  })
})

function pairsOf(catalogue: Readonly<Record<string, { readonly statuses: readonly number[] }>>) {
  return Object.entries(catalogue)
    .flatMap(([code, { statuses }]) => statuses.map(status => `${code} ${status}`))
    .sort()
}

for (const method of ['HEAD', 'OPTIONS', 'DELETE'])
  test(`${method} is answered with 405 and the method of the path`, async t => {
    const { url } = await serveApi(t)
    const { status, headers } = await fetch(`${url}/counters/reset`, { method })
    assert.deepEqual([status, headers.get('allow')], [405, 'POST'])
  })

test('a code of an operator of a later version is answered with 409', async t => {
  const { ask, pods } = await serveApi(t)
  pods.problem = new QueryError('paused' as QueryErrorCode, 'the counters are paused')
  const { status, body } = await ask(alice)
  assert.deepEqual([status, body.error], [409, { code: 'not-supported', message: 'the counters are paused' }])
})

describe('the reference', () => {
  const reference = (page: string) =>
    readFileSync(join(import.meta.dirname, '../../docs/reference', page), 'utf8')

  test('has each code of the catalogue with its statuses, and no other', () => {
    const rows = [...reference('operator-api-errors.md').matchAll(/^\| `([a-z-]+)` \| ([\d, ]+) \|/gm)]
    const documented = rows.flatMap(([, code, statuses = '']) =>
      statuses.split(', ').map(status => `${code} ${status}`),
    )
    assert.deepEqual(documented.sort(), pairsOf(apiErrors))
  })

  test('names no code that the catalogue does not have', () => {
    const named = [...reference('operator-api.md').matchAll(/\bcodes? `([a-z-]+)`/g)].map(([, code]) => code)
    assert.ok(named.length > 0)
    assert.deepEqual(
      named.filter(code => !Object.hasOwn(apiErrors, code ?? '')),
      [],
    )
  })
})
