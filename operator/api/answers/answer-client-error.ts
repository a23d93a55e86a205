import type { Server, ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import { STATUS_CODES } from '@tollway/chassis/net/node-http.ts'
import type { ErrorAnswer } from '../shapes.ts'
import { answerHeaders } from './send-json.ts'

/** The most bytes of the address and the headers of a request. The longest name of a rule fits. */
export const maxHeaderBytes = 256 * 1024

/** The errors of Node for connections without a valid request, by their codes. */
const answersByCode: Readonly<Record<string, readonly [status: number, code: string, message: string]>> = {
  HPE_HEADER_OVERFLOW: [
    431,
    'too-large',
    `the address and the headers have more than ${maxHeaderBytes} bytes; ` +
      'shorten the parameters, such as descriptor, rule or after',
  ],
  ERR_HTTP_REQUEST_TIMEOUT: [408, 'deadline', 'the request took too long'],
}

const dropMs = 5_000

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
