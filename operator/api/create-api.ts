import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Log } from '@tollway/chassis/log/log.ts'
import type { ApiAccess } from './access.ts'
import { type StreamEnd, sendEvents } from './answers/send-events.ts'
import { answerHeaders, dropBody, sendJson, streamHeaders } from './answers/send-json.ts'
import { ApiError, errorBody, toApiError } from './api-error.ts'
import type { Endpoint } from './endpoints.ts'
import { type FoundEndpoint, findEndpoint } from './find-endpoint.ts'
import type { ApiCall, Handler, StreamHandler } from './handlers/handler.ts'
import { handlers } from './handlers/registry.ts'
import { readBody } from './input/read-body.ts'
import { readParameters } from './input/read-parameters.ts'
import { apiPath } from './openapi-document.ts'
import { type ApiLimits, busy, defaultApiLimits, RunningCalls } from './running-calls.ts'
import type { ApiSources, CounterChangeEvent } from './sources.ts'

export interface ApiOptions {
  readonly sources: ApiSources
  readonly access: ApiAccess
  readonly log: Log
  /** Called after each change of a counter, known or possible. Each is logged before. */
  readonly onCounterChange?: (change: CounterChangeEvent) => void
  readonly limits?: Partial<ApiLimits>
}

export interface Api {
  /** Answers a request if its path belongs to the API, and returns whether it does. */
  handle(request: IncomingMessage, response: ServerResponse): boolean
  /** Ends all streams with an event `end`, and rejects new calls. */
  close(): void
}

/** Creates the API of an operator. */
export function createApi(options: ApiOptions): Api {
  return new OperatorApi(options)
}

class OperatorApi implements Api {
  readonly #options: ApiOptions
  readonly #limits: ApiLimits
  readonly #running: RunningCalls
  readonly #closing = new AbortController()

  constructor(options: ApiOptions) {
    this.#options = options
    this.#limits = { ...defaultApiLimits, ...options.limits }
    this.#running = new RunningCalls(this.#limits)
  }

  handle(request: IncomingMessage, response: ServerResponse): boolean {
    const path = pathOf(request)
    if (path !== apiPath && !path.startsWith(`${apiPath}/`)) return false
    this.#answer(request, response).catch(error => this.#fail(request, response, error))
    return true
  }

  close(): void {
    this.#closing.abort()
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    rejectOtherSites(request)
    if (this.#closing.signal.aborted) throw busy(503, 'stopping', 'the operator stops')
    const found = findEndpoint(request.method ?? '', pathOf(request))
    const handler = handlers[found.endpoint.id]
    const kind = 'stream' in handler ? 'streams' : found.endpoint.id === 'whatIf' ? 'whatIfs' : 'calls'
    const end = this.#running.begin(kind)
    try {
      await this.#serve(found, handler, request, response)
    } finally {
      end()
    }
  }

  async #serve(
    found: FoundEndpoint,
    handler: Handler | StreamHandler,
    request: IncomingMessage,
    response: ServerResponse,
  ): Promise<void> {
    const gone = new AbortController()
    response.once('close', () => gone.abort())
    const closing = this.#closing.signal
    const renew = AbortSignal.timeout(this.#limits.maxStreamMs)
    const signal = AbortSignal.any([closing, gone.signal, ...('stream' in handler ? [renew] : [])])
    const changed = (change: CounterChangeEvent) => this.#changed(change)
    const call = await openCall(found, handler, request, { ...this.#options, changed, signal })
    if (!('stream' in handler)) return sendJson(response, 200, await handler.answer(call))
    await handler.check(call)
    response.writeHead(200, { ...answerHeaders, ...streamHeaders })
    const reasonOf = (): StreamEnd => (closing.aborted ? 'stopping' : renew.aborted ? 'renew' : 'finished')
    const { slowReaderMs: slowMs } = this.#limits
    await sendEvents(response, handler.event, handler.stream(call), { reasonOf, slowMs })
  }

  #changed(change: CounterChangeEvent): void {
    const { owner, unknown, ...fields } = change
    const resource = owner === undefined ? '' : `${owner.namespace}/${owner.name}`
    const { log } = this.#options
    if (unknown === undefined) log.info('change a counter', { ...fields, resource })
    else log.warn('change a counter: the outcome is unknown', { ...fields, resource, reason: unknown })
    this.#options.onCounterChange?.(change)
  }

  #fail(request: IncomingMessage, response: ServerResponse, error: unknown): void {
    const known = toApiError(error)
    if (known === undefined) {
      const fields = { path: pathOf(request), error: `${error}` }
      this.#options.log.error('answer a call of the API: internal error', fields)
    }
    if (response.headersSent) return void response.destroy()
    const shown =
      known ?? new ApiError(500, 'internal', 'internal error; the log of the operator has the cause')
    dropBody(request, response)
    sendJson(response, shown.status, errorBody(shown), shown.headers)
  }
}

/** The path without the query, which may have keys of users. */
const pathOf = ({ url = '' }: IncomingMessage) => url.split('?', 1)[0] ?? ''

/** A page of another site cannot read an answer, but could use up all streams. */
function rejectOtherSites({ headers }: IncomingMessage): void {
  const site = headers['sec-fetch-site']
  if (site === 'cross-site' || site === 'same-site')
    throw new ApiError(403, 'other-site', 'cross-site requests are not allowed')
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

/** The caller of calls that need no right. */
const nobody = { name: '', async authorize() {} }
