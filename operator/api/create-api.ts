import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Log } from '@tollway/chassis/log/log.ts'
import type { ApiAccess } from './access.ts'
import { ApiError, errorBody, toApiError } from './api-error.ts'
import type { Endpoint } from './endpoints.ts'
import { type FoundEndpoint, findEndpoint } from './find-endpoint.ts'
import type { ApiCall, Handler, StreamHandler } from './handlers/handler.ts'
import { handlers } from './handlers/registry.ts'
import { readBody } from './input/read-body.ts'
import { readParameters } from './input/read-parameters.ts'
import { apiPath } from './openapi-document.ts'
import { type StreamEnd, sendEvents } from './send-events.ts'
import type { ApiSources, CounterChangeEvent } from './sources.ts'

export interface ApiOptions {
  readonly sources: ApiSources
  readonly access: ApiAccess
  readonly log: Log
  /** Called after each change of a counter, which is also logged. */
  readonly onCounterChange?: (change: CounterChangeEvent) => void
  readonly limits?: Partial<ApiLimits>
}

export interface ApiLimits {
  /** Streams of events that are open at a time. */
  readonly maxStreams: number
  /** Calls that are answered at a time, without streams. */
  readonly maxCalls: number
  /** What-ifs at a time: each may hold a body of 10 MB. */
  readonly maxWhatIfs: number
  /** A stream ends after this time, so that the rights of its caller are checked again. */
  readonly maxStreamMs: number
}

export const defaultApiLimits: ApiLimits = {
  maxStreams: 100,
  maxCalls: 200,
  maxWhatIfs: 2,
  maxStreamMs: 300_000,
}

export interface Api {
  /** Answers a request if its path belongs to the API, and returns whether it does. */
  handle(request: IncomingMessage, response: ServerResponse): boolean
  /** Ends all streams with an event `end`, and rejects new calls. */
  close(): void
}

/** The headers of each answer: no other site may embed it, and nothing stores it. */
const headers = {
  'cache-control': 'no-store',
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
  'cross-origin-resource-policy': 'same-origin',
  'x-content-type-options': 'nosniff',
}

/** A stream takes its connection along, and no proxy is to collect its events. */
const streamHeaders = {
  'content-type': 'text/event-stream',
  'x-accel-buffering': 'no',
  connection: 'close',
}

/** Creates the API of an operator. */
export function createApi(options: ApiOptions): Api {
  const { log } = options
  const limits = { ...defaultApiLimits, ...options.limits }
  const running = { calls: 0, streams: 0, whatIfs: 0 }
  const closing = new AbortController()

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = request.url ?? ''
    const [path = ''] = url.split('?', 1)
    rejectOtherSites(request)
    if (closing.signal.aborted) throw busy(503, 'stopping', 'the operator stops')
    const found = findEndpoint(request.method ?? '', path)
    const { endpoint } = found
    const handler = handlers[endpoint.id]
    const kind = 'stream' in handler ? 'streams' : endpoint.id === 'whatIf' ? 'whatIfs' : 'calls'
    const limit = { streams: limits.maxStreams, whatIfs: limits.maxWhatIfs, calls: limits.maxCalls }[kind]
    if (running[kind] >= limit)
      throw busy(429, 'too-many', `${limit} ${kindNames[kind]} run; that is the limit`)
    running[kind] += 1
    try {
      await serve(found, handler, request, response)
    } finally {
      running[kind] -= 1
    }
  }

  function changed(change: CounterChangeEvent): void {
    const { owner, ...fields } = change
    const resource = owner === undefined ? '' : `${owner.namespace}/${owner.name}`
    log.info('change a counter', { ...fields, resource })
    options.onCounterChange?.(change)
  }

  async function serve(
    found: FoundEndpoint,
    handler: Handler | StreamHandler,
    request: IncomingMessage,
    response: ServerResponse,
  ): Promise<void> {
    const gone = new AbortController()
    response.once('close', () => gone.abort())
    const renew = AbortSignal.timeout(limits.maxStreamMs)
    const signal = AbortSignal.any([closing.signal, gone.signal, ...('stream' in handler ? [renew] : [])])
    const call = await openCall(found, handler, request, { ...options, changed, signal })
    if (!('stream' in handler)) return send(response, 200, await handler.answer(call))
    response.writeHead(200, { ...headers, ...streamHeaders })
    const reasonOf = (): StreamEnd =>
      closing.signal.aborted ? 'stopping' : renew.aborted ? 'renew' : 'finished'
    await sendEvents(response, handler.event, handler.stream(call), reasonOf)
  }

  function fail(request: IncomingMessage, response: ServerResponse, error: unknown): void {
    const [path] = (request.url ?? '').split('?', 1)
    const known = toApiError(error)
    if (known === undefined)
      log.error('answer a call of the API: internal error', { path, error: `${error}` })
    if (response.headersSent) return void response.destroy()
    const shown =
      known ?? new ApiError(500, 'internal', 'internal error; the log of the operator has the cause')
    dropBody(request, response)
    send(response, shown.status, errorBody(shown), shown.headers)
  }

  return {
    handle(request, response) {
      const [path = ''] = (request.url ?? '').split('?', 1)
      if (path !== apiPath && !path.startsWith(`${apiPath}/`)) return false
      answer(request, response).catch(error => fail(request, response, error))
      return true
    },
    close() {
      closing.abort()
    },
  }
}

const kindNames = { calls: 'calls', streams: 'streams', whatIfs: 'what-ifs' }

const busy = (status: number, code: string, message: string) =>
  new ApiError(status, code, message, { headers: { 'retry-after': '1' } })

/** A page of another site cannot read an answer, but could use up all streams. */
function rejectOtherSites({ headers }: IncomingMessage): void {
  const site = headers['sec-fetch-site']
  if (site === 'cross-site' || site === 'same-site')
    throw new ApiError(403, 'other-site', 'a page of another site may not call the API')
}

async function openCall(
  { endpoint, inPath }: FoundEndpoint,
  handler: Handler | StreamHandler,
  request: IncomingMessage,
  { sources, access, changed, signal }: ApiOptions & Pick<ApiCall, 'changed' | 'signal'>,
): Promise<ApiCall> {
  const { body, right, needsCaller = right !== undefined, parameters: expected }: Endpoint = endpoint
  const caller = needsCaller ? await access.authenticate(request) : nobody
  const [, query = ''] = (request.url ?? '').split(/\?(.*)/s)
  const parameters = readParameters({ parameters: expected }, inPath, query)
  const read = body === undefined ? undefined : await readBody(request, body)
  const call: ApiCall = { parameters, body: read, caller, sources, changed, signal }
  if (right !== undefined) await caller.authorize(handler.rightOf?.(call) ?? right, handler.placeOf(call))
  return call
}

/** Of calls that need no right. */
const nobody = { name: '', async authorize() {} }

function send(
  response: ServerResponse,
  status: number,
  body: unknown,
  more: Readonly<Record<string, string>> = {},
) {
  const text = JSON.stringify(body)
  response.writeHead(status, {
    ...headers,
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(text),
    ...more,
  })
  response.end(text)
}

const dropMs = 5_000

/** Reads the rest of a body for a while, since a client that still sends may not read the answer. */
function dropBody(request: IncomingMessage, response: ServerResponse): void {
  if (request.complete) return
  request.on('error', () => {}).resume()
  const timer = setTimeout(() => request.destroy(), dropMs).unref()
  response.once('close', () => clearTimeout(timer))
}
