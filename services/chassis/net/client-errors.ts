import type { Server, ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import { STATUS_CODES } from './node-http.ts'

/** 400: not HTTP. 408: too slow. 431: the head is too large. */
export type ClientErrorStatus = 400 | 408 | 431

const statuses: Readonly<Record<string, ClientErrorStatus>> = {
  HPE_HEADER_OVERFLOW: 431,
  ERR_HTTP_REQUEST_TIMEOUT: 408,
}

/**
 * How long the connection stays open for a client that reads the answer only after it has sent its whole
 * request.
 */
const dropMs = 5_000

/**
 * Makes a server answer an invalid request with the body of its other errors, and close the connection. Node
 * answers without a body.
 */
export function answerClientErrors(
  server: Server,
  createAnswer: (status: ClientErrorStatus) => {
    readonly headers: Readonly<Record<string, string>>
    readonly body: string
  },
): Server {
  const answered = new WeakSet<Duplex>()
  const answers = new WeakMap<Duplex, ServerResponse>()
  server.on('request', ({ socket }, response) => answers.set(socket, response))
  return server.on('clientError', (error: NodeJS.ErrnoException, socket: Duplex) => {
    // Bytes after an invalid request are reported as another error.
    if (answered.has(socket)) return
    answered.add(socket)
    socket.on('error', () => {})
    const last = answers.get(socket)
    const isAnswering = last?.headersSent === true && !last.writableFinished
    if (error.code === 'ECONNRESET' || !socket.writable || isAnswering) return void socket.destroy()
    const status = statuses[error.code ?? ''] ?? 400
    const { headers, body } = createAnswer(status)
    const lines = Object.entries({
      ...headers,
      'content-length': Buffer.byteLength(body),
      connection: 'close',
    }).map(([name, value]) => `${name}: ${value}`)
    const timer = setTimeout(() => socket.destroy(), dropMs).unref()
    socket.once('close', () => clearTimeout(timer))
    socket.end([`HTTP/1.1 ${status} ${STATUS_CODES[status]}`, ...lines, '', body].join('\r\n'))
  })
}
