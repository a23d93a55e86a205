import { once } from 'node:events'
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import { STATUS_CODES } from '@tollway/chassis/net/node-http.ts'
import { type ApiErrorCode, errorBody, toApiError } from './errors.ts'
import type { ErrorAnswer } from './shapes.ts'

/** The headers of each answer: no other site may embed it, and nothing stores it. */
export const answerHeaders = {
  'cache-control': 'no-store',
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
  'cross-origin-resource-policy': 'same-origin',
  'x-content-type-options': 'nosniff',
}

/** A stream takes its connection along, and no proxy is to collect its events. */
export const streamHeaders = {
  'content-type': 'text/event-stream',
  'x-accel-buffering': 'no',
  connection: 'close',
}

/** Sends an answer as JSON. */
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

/** Reads the rest of a body for a while, since a client that still sends may not read the answer. */
export function dropBody(request: IncomingMessage, response: ServerResponse): void {
  if (request.complete) return
  request.on('error', () => {}).resume()
  const timer = setTimeout(() => request.destroy(), dropMs).unref()
  response.once('close', () => clearTimeout(timer))
}

/** The cause of the end of a stream, in its event `end`. A client then connects again. */
export type StreamEnd = 'stopping' | 'renew' | 'finished' | 'slow'

const reconnectMs = 1_000
/** A proxy may end a connection that is silent for a minute. */
const heartbeatMs = 15_000

/**
 * Sends items as events of the given name until the source ends, with an event `error` or `end` as the last
 * one. A client that reads nothing for `slowMs` is disconnected.
 *
 * @param reasonOf returns why the signal of the source was aborted
 */
export async function sendEvents(
  response: ServerResponse,
  event: string,
  items: AsyncIterable<unknown>,
  { reasonOf, slowMs }: { readonly reasonOf: () => StreamEnd; readonly slowMs: number },
): Promise<void> {
  response.write(`retry: ${reconnectMs}\n\n`)
  const heartbeat = setInterval(() => response.write(': the stream is open\n\n'), heartbeatMs).unref()
  try {
    for await (const item of items) {
      if (response.destroyed) return
      if (!response.write(eventText(event, item))) await drained(response, slowMs)
    }
    response.end(eventText('end', { reason: reasonOf() }))
  } catch (error) {
    if (response.destroyed) return
    const known = toApiError(error)
    if (known === undefined) throw error
    response.end(eventText('error', errorBody(known)))
  } finally {
    clearInterval(heartbeat)
  }
}

/** Resolves when the client has read. Destroys the connection if it does not read. */
async function drained(response: ServerResponse, slowMs: number): Promise<void> {
  const slow = setTimeout(() => response.destroy(), slowMs)
  try {
    await Promise.race([once(response, 'drain'), once(response, 'close')])
  } finally {
    clearTimeout(slow)
  }
}

/** One event of a stream, as it is sent. */
export function eventText(event: string, data: unknown): string {
  return `event: ${event}\ndata: ${JSON.stringify(data)}\n\n`
}

/** The most bytes of the address and the headers of a request. The longest name of a rule fits. */
export const maxHeaderBytes = 256 * 1024

/** The errors of Node for connections without a valid request, by their codes. */
const answersByCode: Readonly<
  Record<string, readonly [status: number, code: ApiErrorCode, message: string]>
> = {
  HPE_HEADER_OVERFLOW: [
    431,
    'too-large',
    `the address and the headers have more than ${maxHeaderBytes} bytes; ` +
      'shorten the parameters, such as descriptor, rule or after',
  ],
  ERR_HTTP_REQUEST_TIMEOUT: [408, 'deadline', 'the request took too long'],
}

/** Lets the server answer bytes that are no valid request in the form of other errors. */
export function answerClientErrors(server: Server): Server {
  const answered = new WeakSet<Duplex>()
  /** The last answer of each connection. */
  const answers = new WeakMap<Duplex, ServerResponse>()
  server.on('request', ({ socket }, response) => answers.set(socket, response))
  return server.on('clientError', (error: NodeJS.ErrnoException, socket: Duplex) => {
    // The rest of the request is an error, too. It is read, since a client may read the answer after it.
    if (answered.has(socket)) return
    answered.add(socket)
    socket.on('error', () => {})
    const last = answers.get(socket)
    const isAnswering = last?.headersSent === true && !last.writableFinished
    if (error.code === 'ECONNRESET' || !socket.writable || isAnswering) return void socket.destroy()
    const [status, code, message] = answersByCode[error.code ?? ''] ?? [
      400,
      'invalid',
      'the request is not valid HTTP',
    ]
    const body = JSON.stringify({ error: { code, message } } satisfies ErrorAnswer)
    const headers = {
      ...answerHeaders,
      'content-type': 'application/json',
      'content-length': Buffer.byteLength(body),
      connection: 'close',
    }
    const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`)
    const timer = setTimeout(() => socket.destroy(), dropMs).unref()
    socket.once('close', () => clearTimeout(timer))
    socket.end([`HTTP/1.1 ${status} ${STATUS_CODES[status]}`, ...lines, '', body].join('\r\n'))
  })
}
