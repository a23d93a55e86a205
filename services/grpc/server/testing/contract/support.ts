import http2 from 'node:http2'
import { connect, createServer, type Socket } from 'node:net'
import type { TestContext } from 'node:test'
import { Client, credentials, Metadata as GrpcJsMetadata, type StatusObject } from '@grpc/grpc-js'
import type {
  AnyMethod,
  Call,
  Codec,
  GrpcLimits,
  GrpcServer,
  GrpcServerOptions,
  MessageSink,
} from '../../../server.ts'
import { HealthTable } from '../../health.ts'

export type CreateServer = (
  options: GrpcServerOptions,
  settings?: { readonly keepaliveMs: number },
) => GrpcServer

/** Servers that send no pings, since a ping would make a stalled call continue. */
export const withoutPings =
  (createServer: CreateServer): CreateServer =>
  options =>
    createServer(options, { keepaliveMs: 3_600_000 })

/** A server under test on a free port, and a client of grpc-js, an independent implementation. */
export interface Rig {
  readonly server: GrpcServer
  readonly client: Client
  readonly port: number
  readonly health: HealthTable
  readonly defects: { readonly path: string; readonly error: unknown }[]
}

export const textCodec: Codec<string, string> = {
  decode: bytes => new TextDecoder().decode(bytes),
  encode: text => Buffer.from(text),
}

export const bytesCodec: Codec<Uint8Array, Uint8Array> = { decode: bytes => bytes, encode: bytes => bytes }

/** Methods whose messages are texts, for most tests. */
export const texts = {
  unary: (path: string, handle: (request: string, call: Call) => string | Promise<string>): AnyMethod => ({
    ...textCodec,
    path,
    kind: 'unary',
    handle,
  }),
  clientStream: (
    path: string,
    handle: (requests: AsyncIterable<string>, call: Call) => Promise<string>,
  ): AnyMethod => ({ ...textCodec, path, kind: 'client-stream', handle }),
  serverStream: (
    path: string,
    handle: (request: string, call: Call) => AsyncIterable<string>,
  ): AnyMethod => ({ ...textCodec, path, kind: 'server-stream', handle }),
  serverSink: (
    path: string,
    handle: (request: string, call: Call, sink: MessageSink) => Promise<void>,
  ): AnyMethod => ({ ...textCodec, path, kind: 'server-sink', handle }),
  bidi: (
    path: string,
    handle: (requests: AsyncIterable<string>, call: Call) => AsyncIterable<string>,
  ): AnyMethod => ({ ...textCodec, path, kind: 'bidi', handle }),
}

export async function startRig(
  t: TestContext,
  createServer: CreateServer,
  methods: readonly AnyMethod[],
  limits: Partial<GrpcLimits> = {},
): Promise<Rig> {
  const defects: Rig['defects'] = []
  const health = new HealthTable()
  const onDefect = (path: string, error: unknown) => defects.push({ path, error })
  const server = createServer({ methods, limits, health, onDefect })
  t.after(() => server.drain(0))
  const bound = await server.listen({ host: '127.0.0.1', port: 0 })
  if (!('port' in bound)) throw new Error('a port was asked for, and none is bound')
  return { server, client: openClient(t, `127.0.0.1:${bound.port}`), port: bound.port, health, defects }
}

/** Opens a client with a separate connection and no limits. */
export function openClient(t: TestContext, target: string): Client {
  const client = new Client(target, credentials.createInsecure(), {
    'grpc.use_local_subchannel_pool': 1,
    'grpc.enable_http_proxy': 0,
    'grpc.max_receive_message_length': -1,
    'grpc.max_send_message_length': -1,
  })
  t.after(() => client.close())
  return client
}

/** Opens a proxy to the server. It can break its connections, or stop forwarding as if the cable were cut. */
export async function openProxy(t: TestContext, serverPort: number) {
  const sockets: Socket[] = []
  let answers = 0
  const proxy = createServer(socket => {
    const upstream = connect(serverPort, '127.0.0.1')
    sockets.push(socket, upstream)
    upstream.on('data', () => (answers += 1))
    for (const end of [socket, upstream]) end.on('error', () => {})
    socket.pipe(upstream).pipe(socket)
  })
  function cut(): void {
    for (const socket of sockets) socket.destroy()
  }
  /** Forwards nothing from now on, without closing the connections. */
  function silence(): void {
    for (const socket of sockets) socket.unpipe().removeAllListeners('data').pause()
  }
  t.after(() => {
    cut()
    proxy.close()
  })
  await new Promise<void>(resolve => proxy.listen(0, '127.0.0.1', resolve))
  const address = proxy.address()
  return {
    port: typeof address === 'object' && address ? address.port : 0,
    cut,
    silence,
    answers: () => answers,
  }
}

export interface Outcome {
  readonly message: Uint8Array | undefined
  readonly headers: GrpcJsMetadata
  readonly status: StatusObject
}

export interface RequestOptions {
  readonly metadata?: GrpcJsMetadata
  readonly timeoutMs?: number
}

export const asBuffer = (bytes: Uint8Array) => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)

const identity = (bytes: Buffer) => bytes

/** Makes one unary call. Resolves with the answer or the error; never rejects. */
export function request(
  client: Client,
  path: string,
  body: string | Uint8Array = '',
  { metadata = new GrpcJsMetadata(), timeoutMs }: RequestOptions = {},
): Promise<Outcome> {
  return new Promise(resolve => {
    let message: Uint8Array | undefined
    let headers = new GrpcJsMetadata()
    const options = timeoutMs === undefined ? {} : { deadline: Date.now() + timeoutMs }
    const bytes = typeof body === 'string' ? Buffer.from(body) : asBuffer(body)
    client
      .makeUnaryRequest(path, identity, identity, bytes, metadata, options, (_error, answer) => {
        message = answer
      })
      .on('metadata', received => (headers = received))
      .on('status', status => setImmediate(() => resolve({ message, headers, status })))
  })
}

/**
 * Begins a streaming call. `read` resolves with undefined after the last message; `status` resolves when the
 * call has ended.
 */
export function openStream(
  client: Client,
  path: string,
  { metadata = new GrpcJsMetadata(), timeoutMs }: RequestOptions = {},
) {
  const options = timeoutMs === undefined ? {} : { deadline: Date.now() + timeoutMs }
  const stream = client.makeBidiStreamRequest(path, identity, identity, metadata, options)
  const status = new Promise<StatusObject>(resolve => stream.once('status', resolve))
  stream.on('error', () => {})

  async function read(): Promise<string | undefined> {
    const bytes = await readBytes()
    return bytes && new TextDecoder().decode(bytes)
  }

  function readBytes(): Promise<Uint8Array | undefined> {
    return new Promise(resolve => {
      const take = () => {
        const bytes: Buffer | null = stream.read()
        if (bytes === null) return
        stream.off('readable', take).off('end', onEnd)
        resolve(bytes)
      }
      const onEnd = () => {
        stream.off('readable', take)
        resolve(undefined)
      }
      stream.on('readable', take).once('end', onEnd)
      take()
    })
  }

  async function readAll(): Promise<string[]> {
    const all: string[] = []
    for (let text = await read(); text !== undefined; text = await read()) all.push(text)
    return all
  }

  return {
    stream,
    status,
    read,
    readBytes,
    readAll,
    write: (body: string) => void stream.write(Buffer.from(body)),
  }
}

/** Waits until a condition is true; fails with its name after a while. */
export async function waitFor(
  what: string,
  condition: () => boolean | Promise<boolean>,
  timeoutMs = 20_000,
): Promise<void> {
  const deadlineMs = performance.now() + timeoutMs
  while (!(await condition())) {
    if (performance.now() > deadlineMs)
      throw new Error(`timeout after ${timeoutMs} ms while waiting for ${what}`)
    await new Promise(resolve => setTimeout(resolve, 2))
  }
}

/** Waits until a number has not changed for a while. */
export async function waitUntilStill(read: () => number, stillMs = 100): Promise<number> {
  let last = read()
  let sinceMs = performance.now()
  await waitFor('a number that does not change', () => {
    if (read() !== last) {
      last = read()
      sinceMs = performance.now()
    }
    return performance.now() - sinceMs >= stillMs
  })
  return last
}

/** Opens a connection on which a test sends requests with Node's HTTP/2 client. */
export async function openSession(t: TestContext, port: number): Promise<http2.ClientHttp2Session> {
  const session = http2.connect(`http://127.0.0.1:${port}`)
  t.after(() => session.destroy())
  session.on('error', () => {})
  await new Promise((resolve, reject) => session.once('connect', resolve).once('error', reject))
  return session
}

/**
 * Opens a connection on which a test sends HTTP/2 frames (RFC 9113, 4.1), for what Node's client cannot do,
 * such as a reset without a half-close.
 */
export async function openFrames(t: TestContext, port: number) {
  const socket = connect(port, '127.0.0.1')
  t.after(() => socket.destroy())
  socket.on('error', () => {}).resume()
  await new Promise(resolve => socket.once('connect', resolve))

  function write(type: number, flags: number, streamId: number, payload: Uint8Array): void {
    const head = Buffer.alloc(9)
    head.writeUIntBE(payload.length, 0, 3)
    head.writeUInt8(type, 3)
    head.writeUInt8(flags, 4)
    head.writeUInt32BE(streamId, 5)
    socket.write(Buffer.concat([head, payload]))
  }

  socket.write('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n')
  write(4, 0, 0, Buffer.alloc(0))
  return {
    begin(streamId: number, path: string): void {
      const headers = { ':scheme': 'http', ':authority': 'test', ...grpcHeaders(path) }
      // Literal fields without indexing (RFC 7541, 6.2.2); all are shorter than 127 bytes.
      const fields = Object.entries(headers).map(([name, value]) =>
        Buffer.from(`\0${hpackText(name)}${hpackText(String(value))}`),
      )
      write(1, 4, streamId, Buffer.concat(fields))
    },
    send: (streamId: number, data: Uint8Array) => write(0, 0, streamId, data),
    reset: (streamId: number) => write(3, 0, streamId, Buffer.from([0, 0, 0, 8])),
  }
}

const hpackText = (text: string) => String.fromCharCode(text.length) + text

export interface RawOutcome {
  readonly headers: http2.IncomingHttpHeaders
  readonly body: Buffer
  readonly trailers: http2.IncomingHttpHeaders
}

export const grpcHeaders = (path: string): http2.OutgoingHttpHeaders => ({
  ':method': 'POST',
  ':path': path,
  'content-type': 'application/grpc',
  te: 'trailers',
})

/** Makes a call whose body is these chunks, each in a DATA frame of its own, and ends the caller's side. */
export async function rawRequest(
  session: http2.ClientHttp2Session,
  headers: http2.OutgoingHttpHeaders,
  chunks: readonly Uint8Array[],
): Promise<RawOutcome> {
  const stream = session.request(headers)
  let received: http2.IncomingHttpHeaders = {}
  let trailers: http2.IncomingHttpHeaders = {}
  const body: Buffer[] = []
  stream.on('response', response => (received = response))
  stream.on('trailers', response => (trailers = response))
  stream.on('data', (chunk: Buffer) => body.push(chunk))
  const closed = new Promise((resolve, reject) => stream.once('close', resolve).once('error', reject))
  for (const chunk of chunks) await new Promise(resolve => stream.write(chunk, resolve))
  stream.end()
  await closed
  return { headers: received, body: Buffer.concat(body), trailers: { ...received, ...trailers } }
}

/** Returns a message with gRPC's framing: a flag, the length, the bytes. */
export function frame(body: string | Uint8Array): Buffer {
  const bytes = Buffer.from(body)
  const prefix = Buffer.alloc(5)
  prefix.writeUInt32BE(bytes.length, 1)
  return Buffer.concat([prefix, bytes])
}
