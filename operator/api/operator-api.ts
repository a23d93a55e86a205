import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Log } from '@tollway/chassis/log/log.ts'
import { version } from '@tollway/chassis/version.ts'
import type { CallerAuthentication } from './access.ts'
import { answerHeaders, dropBody, type StreamEnd, sendEvents, sendJson, streamHeaders } from './answers.ts'
import { type ApiEndpoint, apiEndpoints, type EndpointId } from './endpoints.ts'
import { ApiError, busy, errorBody, toApiError } from './errors.ts'
import { counterHandler, raise, reset, top } from './handlers/counters.ts'
import { series, tap, tryRequest } from './handlers/decisions.ts'
import { domains, historyHandler, rules } from './handlers/domains.ts'
import type { Handler, StreamHandler } from './handlers/handler.ts'
import { merchantsHandler } from './handlers/merchants.ts'
import { apply, whatIfHandler } from './handlers/proposals.ts'
import { manifest, resources, rightsHandler } from './handlers/resources.ts'
import { preview, streamsHandler } from './handlers/streams.ts'
import { readParameters, readRequestBody } from './input.ts'
import { apiPath, openApiDocument } from './openapi-document.ts'
import type { ApiSources, CounterChangeEvent } from './sources.ts'

const openapi: Handler = { resolveScope: () => ({}), answer: async () => openApiDocument() }
const versionHandler: Handler = { resolveScope: () => ({}), answer: async () => ({ version }) }

const handlers: Readonly<Record<EndpointId, Handler | StreamHandler>> = {
  openapi,
  domains,
  rules,
  counter: counterHandler,
  reset,
  raise,
  top,
  history: historyHandler,
  series,
  tap,
  whatIf: whatIfHandler,
  try: tryRequest,
  apply,
  manifest,
  rights: rightsHandler,
  version: versionHandler,
  resources,
  streams: streamsHandler,
  preview,
  merchants: merchantsHandler,
}

interface ApiLimits {
  readonly maxStreams: number
  /** The maximum number of calls that run at the same time, without streams and what-ifs. */
  readonly maxCalls: number
  /** The maximum number of what-ifs that run at the same time: each may hold a body of 10 MB. */
  readonly maxWhatIfs: number
  /** A stream ends after this time, so that the rights of its caller are checked again. */
  readonly maxStreamMs: number
  /** A client of a stream that reads nothing for this time is disconnected. */
  readonly slowReaderMs: number
}

const defaultLimits: ApiLimits = {
  maxStreams: 100,
  maxCalls: 200,
  maxWhatIfs: 2,
  maxStreamMs: 300_000,
  slowReaderMs: 10_000,
}

interface ApiOptions {
  readonly sources: ApiSources
  readonly access: CallerAuthentication
  readonly log: Log
  /**
   * Called after each change of a counter has been logged, also if it is unknown whether the change was made.
   */
  readonly onCounterChange?: (change: CounterChangeEvent) => void
  readonly limits?: Partial<ApiLimits>
}

/** The API of an operator. docs/reference/operator-api.md describes how a request is processed. */
export class OperatorApi {
  readonly #options: ApiOptions
  readonly #limits: ApiLimits
  readonly #running = { calls: 0, streams: 0, 'what-ifs': 0 }
  readonly #closing = new AbortController()

  constructor(options: ApiOptions) {
    this.#options = options
    this.#limits = { ...defaultLimits, ...options.limits }
  }

  /** Answers a request if its path belongs to the API, and returns whether it does. */
  handle(request: IncomingMessage, response: ServerResponse): boolean {
    const path = readPath(request)
    if (path !== apiPath && !path.startsWith(`${apiPath}/`)) return false
    this.#answer(request, response).catch(error => this.#fail(request, response, error))
    return true
  }

  /** Ends all streams with an event `end`, and rejects new calls. */
  close(): void {
    this.#closing.abort()
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    rejectOtherSites(request)
    if (this.#closing.signal.aborted) throw busy('stopping', 'the operator stops')
    const found = findEndpoint(request.method ?? '', readPath(request))
    const handler = handlers[found.endpoint.id]
    const end = this.#begin(found, handler)
    try {
      await this.#serve(found, handler, request, response)
    } finally {
      end()
    }
  }

  /**
   * Counts a call as running until the returned function is called.
   *
   * @throws ApiError with 429 if the maximum number of calls of this kind is running
   */
  #begin({ endpoint }: FoundEndpoint, handler: Handler | StreamHandler): () => void {
    const { maxCalls: calls, maxStreams: streams, maxWhatIfs } = this.#limits
    const kind = 'stream' in handler ? 'streams' : endpoint.id === 'whatIf' ? 'what-ifs' : 'calls'
    const limit = { calls, streams, 'what-ifs': maxWhatIfs }[kind]
    if (this.#running[kind] >= limit) throw busy('too-many', `${limit} ${kind} run; that is the limit`)
    this.#running[kind] += 1
    return () => {
      this.#running[kind] -= 1
    }
  }

  async #serve(
    { endpoint, inPath }: FoundEndpoint,
    handler: Handler | StreamHandler,
    request: IncomingMessage,
    response: ServerResponse,
  ): Promise<void> {
    const disconnected = new AbortController()
    response.once('close', () => disconnected.abort())
    const closing = this.#closing.signal
    const { maxStreamMs, slowReaderMs: slowMs } = this.#limits
    const renew = 'stream' in handler ? AbortSignal.timeout(maxStreamMs) : undefined
    const signal = AbortSignal.any([closing, disconnected.signal, ...(renew ? [renew] : [])])

    const { sources, access } = this.#options
    const {
      body: expected,
      right,
      needsCaller = right !== undefined,
      parameters: known,
    }: ApiEndpoint = endpoint
    const caller = needsCaller ? await access.authenticate(request) : nobody
    const [, query = ''] = (request.url ?? '').split(/\?(.*)/s)
    const parameters = readParameters(known, inPath, query)
    const body = expected && (await readRequestBody(request, expected))
    const changed = (change: CounterChangeEvent) => this.#changed(change)
    const call = { parameters, body, caller, sources, changed, signal }
    if (right !== undefined)
      await caller.authorize(handler.resolveRight?.(call) ?? right, handler.resolveScope(call))

    if (!('stream' in handler)) return sendJson(response, 200, await handler.answer(call))
    await handler.check(call)
    response.writeHead(200, { ...answerHeaders, ...streamHeaders })
    const endReason = (): StreamEnd => (closing.aborted ? 'stopping' : renew?.aborted ? 'renew' : 'finished')
    await sendEvents(response, handler.event, handler.stream(call), { endReason, slowMs })
  }

  #changed(change: CounterChangeEvent): void {
    const { owner, unknown, ...fields } = change
    const resource = owner === undefined ? '' : `${owner.namespace}/${owner.name}`
    const { log } = this.#options
    if (unknown === undefined) log.info('change counter', { ...fields, resource })
    else log.warn('change counter failed', { ...fields, resource, reason: unknown })
    this.#options.onCounterChange?.(change)
  }

  #fail(request: IncomingMessage, response: ServerResponse, error: unknown): void {
    const known = toApiError(error)
    if (known === undefined) {
      const fields = { path: readPath(request), error: `${error}` }
      this.#options.log.error('answer API call failed', fields)
    }
    if (response.headersSent) return void response.destroy()
    const shown = known ?? new ApiError('internal', 'internal error; the log of the operator has the cause')
    dropBody(request, response)
    sendJson(response, shown.status, errorBody(shown), shown.headers)
  }
}

/** Returns the path without the query, so that it can be logged: the query may contain keys of users. */
const readPath = ({ url = '' }: IncomingMessage) => url.split('?', 1)[0] ?? ''

const nobody = { name: '', async authorize() {} }

/** Rejects calls of pages of other sites: such a page cannot read an answer, but could use up all streams. */
function rejectOtherSites({ headers }: IncomingMessage): void {
  const site = headers['sec-fetch-site']
  if (site === 'cross-site' || site === 'same-site')
    throw new ApiError('other-site', 'cross-site requests are not allowed')
}

interface FoundEndpoint {
  readonly endpoint: (typeof apiEndpoints)[number]
  readonly inPath: Readonly<Record<string, string>>
}

/** @throws ApiError with 404 for an unknown path, and with 405 for another method */
function findEndpoint(method: string, path: string): FoundEndpoint {
  const found = apiEndpoints.flatMap(endpoint => {
    const inPath = matchPath(endpoint, path)
    return inPath === undefined ? [] : [{ endpoint, inPath }]
  })
  const asked = found.find(({ endpoint }) => endpoint.method === method)
  if (asked !== undefined) return asked
  if (found.length === 0) {
    throw new ApiError('not-found', `there is no such path; ${apiPath}/openapi.json lists all paths`)
  }
  const allow = found.map(({ endpoint }) => endpoint.method).join(', ')
  throw new ApiError('method', `${method} is not allowed; expected ${allow}`, { headers: { allow } })
}

function matchPath(endpoint: ApiEndpoint, path: string): Record<string, string> | undefined {
  const expected = `${apiPath}${endpoint.path}`.split('/')
  const given = path.split('/')
  if (given.length !== expected.length) return undefined
  const inPath: Record<string, string> = {}
  for (const [index, part] of expected.entries()) {
    const text = given[index] ?? ''
    if (!part.startsWith('{')) {
      if (part !== text) return undefined
    } else {
      const value = decode(text)
      if (value === undefined) return undefined
      inPath[part.slice(1, -1)] = value
    }
  }
  return inPath
}

function decode(text: string): string | undefined {
  try {
    return decodeURIComponent(text)
  } catch {
    return undefined
  }
}
