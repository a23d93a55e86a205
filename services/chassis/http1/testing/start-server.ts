import { connect, type Socket } from 'node:net'
import type { TestContext } from 'node:test'
import { answerHead, type Http1Answer } from '../answer.ts'
import type { Http1Request } from '../requests/request.ts'
import { createHttp1Server, type Http1Server, type Http1ServerOptions } from '../server.ts'

/** The interval in which the server of a test checks its connections. */
const sweepMs = 5
const deadlineMs = 5000

export interface Rig {
  readonly server: Http1Server
  readonly port: number
  readonly defects: readonly (readonly [path: string, error: unknown])[]
  readonly requests: readonly Http1Request[]
  /** Opens a connection on which the test writes and reads octets. */
  connect(): RawClient
}

/** Starts a server on a free port until the test ends. Without a handler it echoes the request. */
export async function startServer(t: TestContext, options: Partial<Http1ServerOptions> = {}): Promise<Rig> {
  const defects: [string, unknown][] = []
  const requests: Http1Request[] = []
  const { handle = echo, ...others } = options
  const server = createHttp1Server(
    {
      handle(request) {
        requests.push(request)
        return handle(request)
      },
      onDefect: (path, error) => defects.push([path, error]),
      ...others,
    },
    sweepMs,
  )
  const port = await server.listen({ host: '127.0.0.1', port: 0 })
  t.after(() => server.drain(0))
  const open = () => {
    const client = openRawClient(connect(port, '127.0.0.1'))
    t.after(() => client.socket.destroy())
    return client
  }
  return { server, port, defects, requests, connect: open }
}

const plain = answerHead(200, { 'Content-Type': 'text/plain' })

export function echo({ method, path, body }: Http1Request): Http1Answer {
  return { head: plain, body: `${method} ${path} ${body.toString()}` }
}

export interface RawClient {
  readonly socket: Socket
  readonly closed: () => boolean
  /** Returns whether the server has closed its side. */
  readonly ended: () => boolean
  send(text: string): void
  /** Waits for `count` complete answers; returns the status and body of each, and the last head. */
  answers(count: number): Promise<readonly RawAnswer[]>
  /** Returns all received octets, each as a character. */
  received(): string
}

export interface RawAnswer {
  readonly status: number
  readonly head: string
  readonly body: string
}

function openRawClient(socket: Socket): RawClient {
  let received = ''
  let ended = false
  socket.setEncoding('latin1')
  socket.on('data', text => {
    received += text
  })
  socket.on('end', () => {
    ended = true
  })
  socket.on('error', () => {})
  return {
    socket,
    closed: () => socket.destroyed,
    ended: () => ended,
    send: text => socket.write(text, 'latin1'),
    async answers(count) {
      await until(() => parseAnswers(received).length >= count || ended || socket.destroyed)
      return parseAnswers(received)
    },
    received: () => received,
  }
}

/** Parses complete answers; none may be to HEAD. */
function parseAnswers(text: string): RawAnswer[] {
  const answers: RawAnswer[] = []
  for (let at = 0; ; ) {
    const bodyStart = text.indexOf('\r\n\r\n', at) + 4
    if (bodyStart === 3) return answers
    const head = text.slice(at, bodyStart)
    const length = Number(/\r\nContent-Length: (\d+)\r\n/.exec(head)?.[1] ?? 0)
    if (text.length < bodyStart + length) return answers
    at = bodyStart + length
    answers.push({ status: Number(head.slice(9, 12)), head, body: text.slice(bodyStart, at) })
  }
}

/** Waits for a condition. */
export async function until(condition: () => boolean): Promise<void> {
  const beginMs = performance.now()
  while (!condition()) {
    if (performance.now() - beginMs > deadlineMs) throw new Error(`timeout while waiting for: ${condition}`)
    await new Promise(resolve => setTimeout(resolve, 2))
  }
}
