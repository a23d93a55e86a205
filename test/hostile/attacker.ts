import { connect, type Socket } from 'node:net'
import { FrameReader } from '../../services/grpc/http2/frames/frame-reader.ts'
import { frameTypes, preface } from '../../services/grpc/http2/frames/frames.ts'
import { type Flood, initialWindow, wholeCall } from './floods.ts'

export interface Attack {
  /** Returns the number of sent frames. */
  frames(): number
  /** The error code of each GOAWAY so far. */
  readonly goAways: readonly number[]
}

export interface AttackOptions {
  /** The delay after which a connection that the server has closed is opened again; never without it. */
  readonly reconnectMs?: number | undefined
  /** How long a connection is quiet before its flood begins. */
  readonly quietMs?: number
  /** The most frames of each connection. */
  readonly maxFrames?: number
}

/** The interval in which frames are written. */
const tickMs = 5

/** Floods the port, on as many connections as the flood has, until `over` settles. */
export function attack(
  flood: Flood,
  port: number,
  over: Promise<unknown>,
  { reconnectMs, quietMs = 0, maxFrames = Number.POSITIVE_INFINITY }: AttackOptions = {},
): Attack {
  const goAways: number[] = []
  let framesSent = 0
  let running = true
  const sockets = new Set<Socket>()

  function open(): void {
    const socket = connect(port, '127.0.0.1')
    sockets.add(socket)
    let answers = 0
    let timer: NodeJS.Timeout | undefined
    const reader = new FrameReader((type, _flags, _id, buffer, start) => {
      if (type === frameTypes.GOAWAY) goAways.push(buffer.readUInt32BE(start + 4))
      if (type !== frameTypes.HEADERS || ++answers !== flood.blockedAnswers) return
      timer = setTimeout(flow, quietMs)
    })
    reader.read(preface)
    socket.on('error', () => {}).on('data', (chunk: Buffer) => reader.read(chunk))
    socket.once('close', () => {
      clearInterval(timer)
      sockets.delete(socket)
      if (running && reconnectMs !== undefined) setTimeout(open, reconnectMs)
    })
    socket.once('end', () => socket.destroy())
    socket.write(preface)
    socket.write(initialWindow(0))
    for (let call = 0; call < flood.blockedAnswers; call++) socket.write(wholeCall(2 * call + 1))
    if (flood.begin) socket.write(flood.begin)
    if (flood.blockedAnswers === 0) timer = setTimeout(flow, quietMs)

    function flow(): void {
      const startedMs = performance.now()
      let sent = 0
      timer = setInterval(() => {
        if (socket.writableLength > 1024 * 1024) return
        const due = Math.min(maxFrames, ((performance.now() - startedMs) * flood.framesPerSecond) / 1000)
        const frames: Buffer[] = []
        for (; sent < due; sent++) frames.push(flood.frame(sent))
        framesSent += frames.length
        if (frames.length > 0) socket.write(Buffer.concat(frames))
      }, tickMs)
    }
  }

  for (let connection = 0; connection < flood.connections; connection++) open()
  over.then(() => {
    running = false
    for (const socket of sockets) socket.destroy()
  })
  return { frames: () => framesSent, goAways }
}
