import type { IncomingMessage } from 'node:http'
import { Agent as HttpsAgent, request as requestHttps } from 'node:https'
import { isObject } from '@tollway/chassis/is-object.ts'
import { describeConnectionError } from '@tollway/chassis/net/describe-connection-error.ts'
import { Agent as HttpAgent, request as requestHttp } from '@tollway/chassis/net/node-http.ts'
import { readBoundedBody } from '@tollway/chassis/net/read-bounded-body.ts'
import type { KubeApiAccess } from './access.ts'
import { KubeApiError, statusError } from './api-error.ts'
import type { KubeObject } from './kube-object.ts'

interface HttpCall {
  readonly method: string
  /** The path below the server's base URL, with the query. */
  readonly path: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
  readonly signal: AbortSignal
  /** Whether the answer has no end, like the answer to a watch. Such a call gets a separate connection. */
  readonly endless?: boolean
}

/** Sends calls to the API server, and keeps connections for later calls. */
export type KubeTransport = ReturnType<typeof createTransport>

/**
 * After this time without data, the kernel probes the connection of an endless answer every second. The
 * connection fails after 10 unanswered probes.
 */
const tcpKeepaliveIdleMs = 15_000
/** Idle connections are closed after this time. The server closes them after 90 s, possibly during a call. */
const idleConnectionMs = 30_000
const maxConnections = 32

export function createTransport(access: KubeApiAccess) {
  const secure = access.server.protocol === 'https:'
  const request = secure ? requestHttps : requestHttp
  const Agent = secure ? HttpsAgent : HttpAgent
  const calls = new Agent({ keepAlive: true, maxSockets: maxConnections, timeout: idleConnectionMs })
  const watches = new Agent({ keepAlive: false })
  const base = access.server.pathname.replace(/\/$/, '')

  return {
    /**
     * Resolves with the head of any answer; the caller must read or destroy its body. Rejects with a
     * `KubeApiError` that names the server.
     */
    async open(call: HttpCall): Promise<IncomingMessage> {
      const { headers, tls, agent = call.endless ? watches : calls } = await access.credentials()
      call.signal.throwIfAborted()
      const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>()
      const sent = request({
        ...tls,
        host: access.server.hostname.replace(/^\[|\]$/g, ''),
        port: access.server.port || (secure ? 443 : 80),
        method: call.method,
        path: `${base}${call.path}`,
        headers: { accept: 'application/json', 'user-agent': 'tollway', ...call.headers, ...headers },
        agent,
        signal: call.signal,
      })
      if (call.endless) sent.on('socket', socket => socket.setKeepAlive(true, tcpKeepaliveIdleMs))
      sent.on('error', error => {
        const name = `${call.method} ${call.path.replace(/\?.*/, '')}`
        const problem = `${access.server.origin}: ${describeConnectionError(error)}`
        reject(new KubeApiError(0, 'Unreachable', `${name}: ${problem}`))
      })
      sent.on('response', response => {
        // Without a listener, an error of the body would end the process.
        response.on('error', () => {})
        resolve(response)
      })
      sent.end(call.body)
      return promise
    },
    close(): void {
      calls.destroy()
      watches.destroy()
    },
  }
}

/**
 * Resolves with the whole body as text.
 *
 * @throws KubeApiError `TooLarge` if it is longer than `maxBytes`
 */
export async function readWholeBody(
  response: IncomingMessage,
  call: string,
  maxBytes: number,
): Promise<string> {
  const body = await readBoundedBody(response, maxBytes)
  if (body !== undefined) return body
  throw new KubeApiError(0, 'TooLarge', `${call}: the answer is longer than ${maxBytes} bytes`)
}

/**
 * Yields the lines of a body as they arrive.
 *
 * @throws KubeApiError `TooLarge` for a line longer than `maxBytes`, `BadAnswer` if the body ends within a
 *   line
 */
async function* readLines(response: IncomingMessage, call: string, maxBytes: number): AsyncGenerator<string> {
  let begun: Buffer[] = []
  let length = 0
  for await (const chunk of response as AsyncIterable<Buffer>) {
    let from = 0
    for (let end = chunk.indexOf(10); end !== -1; end = chunk.indexOf(10, from)) {
      const line = Buffer.concat([...begun, chunk.subarray(from, end)]).toString()
      begun = []
      length = 0
      from = end + 1
      yield line
    }
    begun.push(chunk.subarray(from))
    length += chunk.length - from
    if (length > maxBytes) {
      throw new KubeApiError(0, 'TooLarge', `${call}: a line is longer than ${maxBytes} bytes`)
    }
  }
  if (length > 0) throw new KubeApiError(0, 'BadAnswer', `${call}: the answer ended within a line`)
}

/** An event of a watch. A bookmark contains only the resourceVersion that was reached. */
export interface WatchEvent {
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED' | 'BOOKMARK'
  readonly object: KubeObject
}

const types: ReadonlySet<unknown> = new Set(['ADDED', 'MODIFIED', 'DELETED', 'BOOKMARK'])

/**
 * Yields the events of a watch; each line of the body is a JSON text.
 *
 * @throws KubeApiError with the server's code for an error event, `BadAnswer` for a line that is no event
 */
export async function* readWatchEvents(
  response: IncomingMessage,
  call: string,
  maxBytes: number,
): AsyncGenerator<WatchEvent> {
  for await (const line of readLines(response, call, maxBytes)) {
    if (line.trim() !== '') yield toEvent(line, call)
  }
}

function toEvent(line: string, call: string): WatchEvent {
  const bad = (why: string) => new KubeApiError(0, 'BadAnswer', `${call}: an event ${why}`)
  let event: unknown
  try {
    event = JSON.parse(line)
  } catch {
    throw bad('is not JSON')
  }
  if (!isObject(event) || !isObject(event['object'])) throw bad('has no object')
  const { type, object } = event
  if (type === 'ERROR') {
    throw statusError(call, typeof object['code'] === 'number' ? object['code'] : 500, object)
  }
  if (!types.has(type)) throw bad('is of no known type')
  if (!isEventObject(type, object)) throw bad('has no name and resourceVersion')
  return { type: type as WatchEvent['type'], object }
}

/** Returns whether the object of an event has the required metadata. Only a bookmark needs no name. */
function isEventObject(type: unknown, object: Readonly<Record<string, unknown>>): object is KubeObject {
  const { metadata } = object
  if (!isObject(metadata) || typeof metadata['resourceVersion'] !== 'string') return false
  return type === 'BOOKMARK' || typeof metadata['name'] === 'string'
}
