import { createServer, type Socket } from 'node:net'
import { createFrameReader } from '../load/frame-reader.ts'
import { flags, frame, frameTypes, preface, windowUpdate } from '../load/frames.ts'

/**
 * The kernel's cost of relaying: each DATA frame of the producer is written unchanged to every consumer's
 * socket. Of HTTP/2 it only assumes that the load has one stream on each connection, whose frames have the
 * same bytes. No program with sockets of Node can be cheaper. `bare-writes.ts GRPC_PORT`.
 */
const [grpcPort = ''] = process.argv.slice(2)
const consumers = new Set<Socket>()
const nothing = Buffer.alloc(0)
/** The producer gets a window update when it has used half of its first window. */
const halfWindowBytes = 32_768

function endOf(streamId: number): Buffer {
  return frame(frameTypes.headers, flags.endHeaders | flags.endStream, streamId, nothing)
}

/** Like the other yardstick, it stops reading while a consumer is not ready. */
function relay(producer: Socket, bytes: Buffer): void {
  let busy = 0
  const onDrain = () => {
    busy -= 1
    if (busy === 0) producer.resume()
  }
  for (const consumer of consumers) {
    if (consumer.write(bytes)) continue
    busy += 1
    consumer.once('drain', onDrain)
  }
  if (busy > 0) producer.pause()
}

function serve(socket: Socket): void {
  let prefaceLeft = preface.length
  let pushes = false
  let uncredited = 0
  const credit = (bytes: number) => {
    uncredited += bytes
    if (uncredited < halfWindowBytes) return
    const widened = windowUpdate(uncredited)
    socket.write(widened)
    const ofStream = Buffer.from(widened)
    ofStream.writeUInt32BE(1, 5)
    socket.write(ofStream)
    uncredited = 0
  }
  const readFrames = createFrameReader((type, flagBits, streamId, payload) => {
    const acknowledged = (flagBits & flags.ack) !== 0
    if (type === frameTypes.headers) {
      pushes = payload.includes('Push')
      if (!pushes) consumers.add(socket)
      socket.write(frame(frameTypes.headers, flags.endHeaders, streamId, nothing))
    } else if (type === frameTypes.data && pushes) {
      if (payload.length > 0) relay(socket, frame(type, 0, streamId, payload))
      credit(payload.length)
      if ((flagBits & flags.endStream) !== 0) relay(socket, endOf(streamId))
    }
    if (type === frameTypes.ping && !acknowledged) socket.write(frame(type, flags.ack, 0, payload))
    if (type === frameTypes.settings && !acknowledged) socket.write(frame(type, flags.ack, 0, nothing))
  })
  socket.write(frame(frameTypes.settings, 0, 0, nothing))
  socket.on('data', chunk => {
    readFrames(chunk.subarray(prefaceLeft))
    prefaceLeft = Math.max(0, prefaceLeft - chunk.length)
  })
  socket.on('close', () => consumers.delete(socket))
  socket.on('error', () => {})
}

createServer({ noDelay: true }, serve).listen(Number(grpcPort), '127.0.0.1', () => {
  process.stdout.write('serving\n')
})
