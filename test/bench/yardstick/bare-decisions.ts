import { connect, createServer, type Socket } from 'node:net'
import { createFrameReader } from '../load/frame-reader.ts'
import { flags, frame, frameTypes, preface } from '../load/frames.ts'

/**
 * The cost of a decision with bare sockets of Node: each gRPC request is an INCRBY of one key, and each reply
 * of Redis an answer with constant bytes. Requests of one turn of the event loop are sent to Redis in one
 * write, and so are answers to a connection. It has no HPACK, flow control, rules, deadlines or long-lived
 * objects. No program with sockets of Node can be cheaper. `bare-decisions.ts GRPC_PORT REDIS_PORT`.
 */
const [grpcPort = '', redisPort = ''] = process.argv.slice(2)
const increment = Buffer.from('*3\r\n$6\r\nINCRBY\r\n$4\r\nbare\r\n$1\r\n1\r\n')
const lineFeed = 10

/** `:status: 200`; OK of a day's limit, of the size of an answer of the service; `grpc-status: 0`. */
const message = Buffer.from([
  0, 0, 0, 0, 21, 8, 1, 18, 17, 8, 1, 18, 8, 8, 128, 148, 235, 220, 3, 16, 4, 24, 255, 147, 235, 220,
])
const status = Buffer.from([0x88])
const trailers = Buffer.concat([Buffer.from([0, 11]), Buffer.from('grpc-status'), Buffer.from([1, 48])])
const answer = Buffer.concat([
  frame(frameTypes.headers, flags.endHeaders, 0, status),
  frame(frameTypes.data, 0, 0, message),
  frame(frameTypes.headers, flags.endHeaders | flags.endStream, 0, trailers),
])
const streamIdOffsets = [5, 5 + 9 + status.length, 5 + 18 + status.length + message.length]

/** Gathers the bytes for a socket until the end of a turn, or of a read. */
function createGatherer(socket: Socket) {
  let bytes = Buffer.allocUnsafeSlow(64 * 1024)
  let length = 0
  return {
    /** Returns the memory of the bytes. */
    add(more: Buffer): Buffer {
      if (length + more.length > bytes.length) this.flush()
      more.copy(bytes, length)
      length += more.length
      return bytes.subarray(length - more.length, length)
    },
    flush() {
      if (length > 0) socket.write(bytes.subarray(0, length))
      if (socket.writableLength > 0) bytes = Buffer.allocUnsafeSlow(bytes.length)
      length = 0
    },
  }
}

type Gatherer = ReturnType<typeof createGatherer>

const redis = connect({ port: Number(redisPort), host: '127.0.0.1', noDelay: true })
const toRedis = createGatherer(redis)
let waiting: { readonly output: Gatherer; readonly streamId: number }[] = []
let answered = 0
let isScheduled = false

function count(output: Gatherer, streamId: number): void {
  waiting.push({ output, streamId })
  toRedis.add(increment)
  if (isScheduled) return
  isScheduled = true
  setImmediate(() => {
    isScheduled = false
    toRedis.flush()
  })
}

redis.on('data', replies => {
  const outputs = new Set<Gatherer>()
  for (let at = replies.indexOf(lineFeed); at >= 0; at = replies.indexOf(lineFeed, at + 1)) {
    const next = waiting[answered++]
    if (next === undefined) throw new Error('Redis sent an unexpected reply')
    const written = next.output.add(answer)
    for (const offset of streamIdOffsets) written.writeUInt32BE(next.streamId, offset)
    outputs.add(next.output)
  }
  for (const output of outputs) output.flush()
  if (answered < 1024) return
  waiting = waiting.slice(answered)
  answered = 0
})

function serve(socket: Socket): void {
  const output = createGatherer(socket)
  let prefaceLeft = preface.length
  const read = createFrameReader((type, flagBits, streamId) => {
    if (type === frameTypes.data) count(output, streamId)
    else if (type === frameTypes.settings && (flagBits & flags.ack) === 0) {
      socket.write(frame(type, flags.ack, 0, Buffer.alloc(0)))
    }
  })
  socket.write(frame(frameTypes.settings, 0, 0, Buffer.alloc(0)))
  socket.on('data', chunk => {
    read(chunk.subarray(prefaceLeft))
    prefaceLeft = Math.max(0, prefaceLeft - chunk.length)
  })
  socket.on('error', () => {})
}

createServer({ noDelay: true }, serve).listen(Number(grpcPort), '127.0.0.1', () => {
  process.stdout.write('serving\n')
})
