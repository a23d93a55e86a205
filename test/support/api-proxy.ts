import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { Agent, request } from 'node:https'
import type { AddressInfo, Socket } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'

/** The faults of the connection to an API server. A share is of all calls (or watches, or events), 0 to 1. */
export interface ApiFaults {
  /** The share of calls that the proxy answers with a status. */
  readonly answers?: readonly AnswerFault[]
  /** Delays each call. */
  readonly delayMs?: number
  /** The share of events that are truncated to their first half, after which the connection is closed. */
  readonly cutEvents?: number
  /** The share of events that are replaced by garbage. */
  readonly garbageEvents?: number
  /** The share of events that are replaced by an error event for an expired resourceVersion. */
  readonly goneEvents?: number
  /** The share of events that are dropped. */
  readonly lostEvents?: number
  /** Ends each watch gracefully after this time. */
  readonly endWatchesAfterMs?: number
  /** Transfers no data in either direction, on connections that stay open: a partitioned peer. */
  readonly silent?: boolean
}

export interface AnswerFault {
  readonly status: 401 | 409 | 410 | 429 | 500 | 503
  readonly share: number
  readonly retryAfterSeconds?: number
  /** All calls when left out. */
  readonly of?: 'reads' | 'watches' | 'writes'
}

export interface ProxiedCall {
  readonly method: string
  /** The path with its query. */
  readonly path: string
  readonly atMs: number
  /** The status of the answer, from the server or the proxy; 0 until there is one. */
  status: number
}

/** A proxy to an API server with seeded faults. It serves plain HTTP. */
export interface ApiProxy {
  readonly url: string
  /** Replaces all faults, also for running calls. */
  setFaults(faults: ApiFaults): void
  calls(): readonly ProxiedCall[]
  /** Returns the number of injected faults. */
  struck(): number
  stop(): Promise<void>
}

export interface ApiProxyOptions {
  readonly target: { readonly host: string; readonly port: number; readonly ca: string }
  readonly seed: number
  /** Called for each call that the API server has answered, before the client gets the answer. */
  readonly onAnswer?: (call: ProxiedCall) => void
}

/**
 * Returns a function for numbers in [0, 1), always the same ones for a seed: a permuted congruential
 * generator (PCG).
 */
export function seededRandom(seed: number): () => number {
  let state = BigInt(seed)
  return () => {
    state = BigInt.asUintN(64, state * 6364136223846793005n + 1442695040888963407n)
    const folded = Number(BigInt.asUintN(32, ((state >> 18n) ^ state) >> 27n))
    const turn = Number(state >> 59n)
    return (((folded >>> turn) | (folded << (-turn & 31))) >>> 0) / 2 ** 32
  }
}

export async function startApiProxy({ target, seed, onAnswer }: ApiProxyOptions): Promise<ApiProxy> {
  const random = seededRandom(seed)
  const agent = new Agent({ keepAlive: true, maxSockets: 64, ca: target.ca })
  const calls: ProxiedCall[] = []
  const sockets = new Set<Socket>()
  let faults: ApiFaults = {}
  let struck = 0

  /** Returns whether a fault of this share is injected now. */
  const strikes = (share: number | undefined) => {
    const hit = share !== undefined && random() < share
    if (hit) struck += 1
    return hit
  }

  async function whileSilent(client: ServerResponse): Promise<void> {
    while (faults.silent && !client.destroyed) await pause(10)
  }

  async function handle(incoming: IncomingMessage, client: ServerResponse): Promise<void> {
    const { method = '', url: path = '' } = incoming
    const call: ProxiedCall = { method, path, atMs: performance.now(), status: 0 }
    calls.push(call)
    const body = await readAll(incoming)
    if (faults.delayMs !== undefined) await pause(faults.delayMs)
    await whileSilent(client)
    const rejection = faults.answers?.find(({ share, of }) => isOf(of, call) && strikes(share))
    if (rejection !== undefined) {
      call.status = rejection.status
      return reject(client, rejection)
    }
    const { host, port } = target
    const headers = { ...incoming.headers, host: `${host}:${port}` }
    const forwarded = request({ host, port, method, path, headers, agent }, answer => {
      call.status = answer.statusCode ?? 0
      onAnswer?.(call)
      client.writeHead(call.status, withoutHopHeaders(answer))
      client.flushHeaders()
      const relay = isWatch(path) && call.status === 200 ? relayEvents : relayBytes
      relay(answer, client).catch(() => client.destroy())
    })
    forwarded.on('error', () => client.destroy())
    client.on('close', () => forwarded.destroy())
    forwarded.end(body)
  }

  async function relayBytes(answer: IncomingMessage, client: ServerResponse): Promise<void> {
    for await (const chunk of answer) {
      await whileSilent(client)
      client.write(chunk)
    }
    client.end()
  }

  async function relayEvents(answer: IncomingMessage, client: ServerResponse): Promise<void> {
    const timer = setInterval(() => {
      const endMs = faults.endWatchesAfterMs
      if (endMs === undefined || performance.now() - startedAtMs < endMs) return
      struck += 1
      clearInterval(timer)
      client.end()
      answer.destroy()
    }, 10)
    const startedAtMs = performance.now()
    try {
      for await (const line of linesOf(answer)) {
        await whileSilent(client)
        if (!relayEvent(line, client)) return
      }
      await whileSilent(client)
      client.end()
    } finally {
      clearInterval(timer)
    }
  }

  /** Returns whether the watch continues. */
  function relayEvent(line: Buffer, client: ServerResponse): boolean {
    if (strikes(faults.lostEvents)) return true
    if (strikes(faults.cutEvents)) {
      client.write(line.subarray(0, line.length / 2), () => client.destroy())
      return false
    }
    if (strikes(faults.garbageEvents)) client.write('{"type":"ADDED","object":{]}\n')
    else if (strikes(faults.goneEvents)) client.write(goneEvent)
    else client.write(line)
    return true
  }

  const server = createServer((incoming, client) => {
    client.on('error', () => {})
    handle(incoming, client).catch(() => client.destroy())
  })
  server.on('connection', socket => {
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket))
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))

  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    setFaults(next) {
      faults = next
    },
    calls: () => calls,
    struck: () => struck,
    async stop() {
      for (const socket of sockets) socket.destroy()
      agent.destroy()
      await new Promise(resolve => server.close(resolve))
    },
  }
}

const goneEvent = `${JSON.stringify({
  type: 'ERROR',
  object: { kind: 'Status', code: 410, reason: 'Expired', message: 'too old resource version' },
})}\n`

function isWatch(path: string): boolean {
  return /[?&]watch=true/.test(path)
}

function isOf(of: AnswerFault['of'], { method, path }: ProxiedCall): boolean {
  if (of === undefined) return true
  if (method !== 'GET') return of === 'writes'
  return of === (isWatch(path) ? 'watches' : 'reads')
}

function reject(client: ServerResponse, { status, retryAfterSeconds }: AnswerFault): void {
  client.statusCode = status
  client.setHeader('content-type', 'application/json')
  if (retryAfterSeconds !== undefined) client.setHeader('retry-after', `${retryAfterSeconds}`)
  client.end(
    JSON.stringify({ kind: 'Status', code: status, reason: 'Injected', message: 'a fault of the test' }),
  )
}

async function readAll(incoming: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = []
  for await (const chunk of incoming as AsyncIterable<Buffer>) chunks.push(chunk)
  return Buffer.concat(chunks)
}

function withoutHopHeaders({ headers }: IncomingMessage): IncomingMessage['headers'] {
  const { connection: _connection, 'transfer-encoding': _encoding, ...rest } = headers
  return rest
}

/** Yields each line with its line end. */
async function* linesOf(answer: IncomingMessage): AsyncGenerator<Buffer> {
  let rest: Buffer = Buffer.alloc(0)
  for await (const chunk of answer as AsyncIterable<Buffer>) {
    rest = Buffer.concat([rest, chunk])
    for (let end = rest.indexOf(10); end !== -1; end = rest.indexOf(10)) {
      yield rest.subarray(0, end + 1)
      rest = rest.subarray(end + 1)
    }
  }
}
