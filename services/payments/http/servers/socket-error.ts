import type { Duplex } from 'node:stream'
import { STATUS_CODES } from '@tollway/chassis/net/node-http.ts'
import { newId, type RandomBytes } from '../../domain/ids.ts'

/** The error of Node for a connection whose request is not valid HTTP. */
interface ClientError extends Error {
  readonly code?: string
}

const answers: Readonly<Record<string, readonly [status: number, message: string]>> = {
  HPE_HEADER_OVERFLOW: [431, 'The headers are larger than the limit.'],
  ERR_HTTP_REQUEST_TIMEOUT: [408, 'The request took too long.'],
}

/** Answers bytes that are not HTTP in the form of every other error, and ends the connection. */
export function answerSocketError(
  error: ClientError,
  socket: Duplex,
  nowMs: number,
  random: RandomBytes,
): void {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy()
    return
  }
  const [status, message] = answers[error.code ?? ''] ?? [400, 'The request is not valid HTTP.']
  const body = JSON.stringify({ code: 'malformed_body', message })
  const lines = [
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
    'content-type: application/json; charset=utf-8',
    `content-length: ${Buffer.byteLength(body)}`,
    `x-request-id: ${newId(nowMs, random)}`,
    'connection: close',
  ]
  socket.end(`${lines.join('\r\n')}\r\n\r\n${body}`)
}
