import { once } from 'node:events'
import { connect } from 'node:net'
import { FrameReader } from '../http2/frames/frame-reader.ts'
import { frameBytes, frameFlags, frameTypes, preface } from '../http2/frames/frames.ts'
import { encodeHeaderBlock } from '../http2/hpack/hpack-encoder.ts'

interface RepeatedCall {
  /** The port on 127.0.0.1, without TLS. */
  readonly port: number
  /** `/package.Service/Method`. */
  readonly path: string
  readonly message: Uint8Array
  readonly calls: number
  readonly signal: AbortSignal
}

/**
 * Makes unary calls one after the other over one connection. It uses no gRPC library, which would stay in the
 * memory of the process. Resolves with the number of calls that the server has ended with any status. Rejects
 * when no connection can be made.
 */
export async function callRepeatedly({ port, path, message, calls, signal }: RepeatedCall): Promise<number> {
  const fields = encodeHeaderBlock([
    [':method', 'POST'],
    [':scheme', 'http'],
    [':path', path],
    ['content-type', 'application/grpc'],
    ['te', 'trailers'],
  ])
  // The gRPC prefix: not compressed, and the length, which must be below 256.
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
