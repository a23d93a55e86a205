import { once } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { ClientErrorStatus } from '@tollway/chassis/net/client-errors.ts'
import { type ApiErrorCode, errorBody, toApiError } from './errors.ts'
import type { ErrorAnswer } from './shapes.ts'

/** The headers of each answer: no site may embed it, and no cache may store it. */
export const answerHeaders = {
  'cache-control': 'no-store',
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
  'cross-origin-resource-policy': 'same-origin',
  'x-content-type-options': 'nosniff',
}

/** The headers of a stream of events, which proxies must not buffer. The connection ends with the stream. */
export const streamHeaders = {
  'content-type': 'text/event-stream',
  'x-accel-buffering': 'no',
  connection: 'close',
}

export function sendJson(
  response: ServerResponse,
  status: number,
  body: unknown,
  more: Readonly<Record<string, string>> = {},
): void {
  const text = JSON.stringify(body)
  response.writeHead(status, {
    ...answerHeaders,
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(text),
    ...more,
  })
  response.end(text)
}

const dropMs = 5_000

/**
 * Reads and drops the rest of a body for some seconds, because a client may read the answer only after it has
 * sent its whole body.
 */
export function dropBody(request: IncomingMessage, response: ServerResponse): void {
  if (request.complete) return
  request.on('error', () => {}).resume()
  const timer = setTimeout(() => request.destroy(), dropMs).unref()
  response.once('close', () => clearTimeout(timer))
}

/** Why a stream ends: the data of the event `end`. Clients then connect again. */
export type StreamEnd = 'stopping' | 'renew' | 'finished' | 'slow'

const reconnectMs = 1_000
/** The time between two heartbeats: a proxy may end a connection that is silent for a minute. */
const heartbeatMs = 15_000

/**
 * Sends items as events of the given name until the source ends, and then an event `error` or `end`. A client
 * that reads nothing for `slowMs` is disconnected.
 *
 * @param endReason returns why the signal of the source was aborted
 */
export async function sendEvents(
  response: ServerResponse,
  event: string,
  items: AsyncIterable<unknown>,
  { endReason, slowMs }: { readonly endReason: () => StreamEnd; readonly slowMs: number },
): Promise<void> {
  response.write(`retry: ${reconnectMs}\n\n`)
  const heartbeat = setInterval(() => response.write(': the stream is open\n\n'), heartbeatMs).unref()
  try {
    for await (const item of items) {
      if (response.destroyed) return
      if (!response.write(eventText(event, item))) await drained(response, slowMs)
    }
    response.end(eventText('end', { reason: endReason() }))
  } catch (error) {
    if (response.destroyed) return
    const known = toApiError(error)
    if (known === undefined) throw error
    response.end(eventText('error', errorBody(known)))
  } finally {
    clearInterval(heartbeat)
  }
}

/** Resolves when the client has read. Destroys the connection if the client reads nothing for `slowMs`. */
async function drained(response: ServerResponse, slowMs: number): Promise<void> {
  const slow = setTimeout(() => response.destroy(), slowMs)
  try {
    await Promise.race([once(response, 'drain'), once(response, 'close')])
  } finally {
    clearTimeout(slow)
  }
}

export function eventText(event: string, data: unknown): string {
  return `event: ${event}\ndata: ${JSON.stringify(data)}\n\n`
}

/** The maximum bytes of the address and the headers of a request. The longest name of a rule fits. */
export const maxHeaderBytes = 256 * 1024

const clientErrors: Readonly<Record<ClientErrorStatus, readonly [code: ApiErrorCode, message: string]>> = {
  400: ['invalid', 'the request is not valid HTTP'],
  408: ['deadline', 'the request took too long'],
  431: [
    'too-large',
    `the address and the headers have more than ${maxHeaderBytes} bytes; ` +
      'shorten the parameters, such as descriptor, rule or after',
  ],
}

/** The answer to a connection without a valid request. */
export function clientErrorAnswer(status: ClientErrorStatus) {
  const [code, message] = clientErrors[status]
  const body = JSON.stringify({ error: { code, message } } satisfies ErrorAnswer)
  return { headers: { ...answerHeaders, 'content-type': 'application/json' }, body }
}
