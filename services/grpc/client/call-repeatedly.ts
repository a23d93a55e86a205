import { once } from 'node:events'
import { connect } from 'node:net'
import { FrameReader } from '../http2/frames/frame-reader.ts'
import { frameBytes, frameFlags, frameTypes, preface } from '../http2/frames/frames.ts'
import { encodeHeaderBlock } from '../http2/hpack/hpack-encoder.ts'

/** One call, made several times. */
interface RepeatedCall {
  /** A port of the loopback address, without TLS. */
  readonly port: number
  /** `/package.Service/Method`. */
  readonly path: string
  readonly message: Uint8Array
  readonly calls: number
  /** Ends the connection. */
  readonly signal: AbortSignal
}

/**
 * Makes unary calls one after the other over one connection. A gRPC library is not loaded for them, since the
 * process would keep its memory. Resolves with the number of calls that the server ended, which is below
 * `calls` when the connection ended before. Rejects when there is no connection.
 */
export async function callRepeatedly({ port, path, message, calls, signal }: RepeatedCall): Promise<number> {
  const fields = encodeHeaderBlock([
    [':method', 'POST'],
    [':scheme', 'http'],
    [':path', path],
    ['content-type', 'application/grpc'],
    ['te', 'trailers'],
  ])
  // The message is not compressed, and its length precedes it.
  const data = Buffer.concat([Buffer.from([0, 0, 0, 0, message.length]), message])
  const call = (id: number) =>
    Buffer.concat([
      frameBytes(frameTypes.HEADERS, frameFlags.END_HEADERS, id, fields),
      frameBytes(frameTypes.DATA, frameFlags.END_STREAM, id, data),
    ])
  let ended = 0
  const socket = connect({ host: '127.0.0.1', port, noDelay: true, signal })
  const reader = new FrameReader((type, flags) => {
    if (type !== frameTypes.HEADERS || (flags & frameFlags.END_STREAM) === 0) return
    ended += 1
    if (ended < calls) socket.write(call(2 * ended + 1))
    else socket.end()
  })
  reader.read(preface)
  socket.on('data', (chunk: Buffer) => reader.read(chunk))
  await once(socket, 'connect')
  const closed = once(socket, 'close')
  socket.write(Buffer.concat([preface, frameBytes(frameTypes.SETTINGS, 0, 0, Buffer.alloc(0)), call(1)]))
  await closed
  return ended
}
