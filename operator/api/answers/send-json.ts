import type { IncomingMessage, ServerResponse } from 'node:http'

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
