import { createFrameWalker } from './frame-walker.ts'
import {
  clientSettings,
  flags,
  frame,
  frameHeaderBytes,
  frameTypes,
  headerBlocks,
  preface,
  windowUpdate,
} from './frames.ts'
import { createMessageReader, type TakeMessage } from './message-reader.ts'
import { openLoadSocket } from './socket.ts'

/** A connection for streams of one gRPC method, with bare HTTP/2 frames. */
export interface StreamConnection {
  begin(listener: LoadStreamListener): LoadStream
  /** Resolves when the server has read all earlier bytes. */
  roundTrip(): Promise<void>
  close(): void
}

export interface LoadStream {
  /**
   * Sends a message, after `headroomBytes` that are written here, as soon as it fits into the windows. The
   * bytes are copied before this returns.
   */
  send(message: Buffer): void
  /** Half-closes after the waiting messages. */
  end(): void
  /**
   * Returns whether a message of `bytes` bytes, without the headroom, fits into the windows now and no other
   * waits.
   */
  hasRoom(bytes: number): boolean
}

export interface LoadStreamListener {
  readonly onMessage: TakeMessage
  /** The stream has ended: with END_STREAM, or with a reset. */
  onEnd(wasReset: boolean): void
  /** The windows were widened. */
  onRoom(): void
}

/** The receive window of the connection, which is refilled when half of it is used. */
const receiveWindowBytes = 0x3fffffff
const defaultWindowBytes = 65_535
const prefixBytes = 5
/** The bytes before a message on the wire: the head of its frame, and the prefix of gRPC. */
export const headroomBytes = frameHeaderBytes + prefixBytes
const initialWindowSetting = 4

const emptySettings = frame(frameTypes.settings, 0, 0, Buffer.alloc(0))

/** The windows of the server: of all streams together, and of a new stream. */
interface Windows {
  connection: number
  initial: number
}

export interface StreamTarget {
  readonly port: number
  /** `/package.Service/Method`. */
  readonly path: string
  /** Never widens its windows, like a hanging consumer. */
  readonly stalled?: boolean
  /** Called when a connection ends that was not closed here. */
  onLost(reason: string): void
}

export async function openStreamConnection({
  port,
  path,
  stalled = false,
  onLost,
}: StreamTarget): Promise<StreamConnection> {
  const blocks = headerBlocks(path, `127.0.0.1:${port}`)
  const streams = new Map<number, ReturnType<typeof createLoadStream>>()
  const windows: Windows = { connection: defaultWindowBytes, initial: defaultWindowBytes }
  const pings: (() => void)[] = []
  let received = 0
  let nextStreamId = 1

  const walk = createFrameWalker({
    onBody: (streamId, buffer, start, end) => streams.get(streamId)?.read(buffer, start, end),
    onData(streamId, flagBits, bytes) {
      received += bytes
      if (received > receiveWindowBytes / 2 && !stalled) {
        socket.push(windowUpdate(received))
        received = 0
      }
      if ((flagBits & flags.endStream) !== 0) finish(streamId, false)
    },
    onFrame(type, flagBits, streamId, payload) {
      if (type === frameTypes.headers && (flagBits & flags.endStream) !== 0) finish(streamId, false)
      else if (type === frameTypes.resetStream) finish(streamId, true)
      else if (type === frameTypes.windowUpdate) widen(streamId, payload.readUInt32BE(0))
      else if (type === frameTypes.settings && (flagBits & flags.ack) === 0) take(payload)
      else if (type === frameTypes.ping) onPing(flagBits, payload)
      else if (type === frameTypes.goAway) onLost(`port ${port} sent GOAWAY`)
    },
  })
  const socket = await openLoadSocket(port, bytes => walk(bytes), onLost)
  const settings = stalled ? [emptySettings] : [clientSettings, windowUpdate(receiveWindowBytes)]
  socket.push(Buffer.concat([preface, ...settings]))

  function finish(streamId: number, wasReset: boolean): void {
    const stream = streams.get(streamId)
    streams.delete(streamId)
    stream?.ended(wasReset)
  }

  function take(settings: Buffer): void {
    for (let at = 0; at < settings.length; at += 6) {
      if (settings.readUInt16BE(at) !== initialWindowSetting) continue
      const wider = settings.readUInt32BE(at + 2) - windows.initial
      windows.initial += wider
      for (const stream of streams.values()) stream.widen(wider)
    }
    socket.push(frame(frameTypes.settings, flags.ack, 0, Buffer.alloc(0)))
  }

  function widen(streamId: number, bytes: number): void {
    if (streamId === 0) {
      windows.connection += bytes
      for (const stream of streams.values()) stream.widen(0)
    } else streams.get(streamId)?.widen(bytes)
  }

  function onPing(flagBits: number, payload: Buffer): void {
    if ((flagBits & flags.ack) === 0) socket.push(frame(frameTypes.ping, flags.ack, 0, Buffer.from(payload)))
    else pings.shift()?.()
  }

  return {
    begin(listener) {
      const id = nextStreamId
      nextStreamId += 2
      const stream = createLoadStream(id, windows, listener, socket.push)
      streams.set(id, stream)
      socket.push(frame(frameTypes.headers, flags.endHeaders, id, id === 1 ? blocks.first : blocks.later))
      return stream
    },
    roundTrip() {
      const { promise, resolve } = Promise.withResolvers<void>()
      pings.push(resolve)
      socket.push(frame(frameTypes.ping, 0, 0, Buffer.alloc(8)))
      return promise
    },
    close: socket.close,
  }
}

function createLoadStream(
  id: number,
  windows: Windows,
  listener: LoadStreamListener,
  push: (bytes: Uint8Array) => void,
) {
  const read = createMessageReader(listener.onMessage)
  const waiting: Buffer[] = []
  let window = windows.initial
  let ending = false
  let over = false

  function fits(messageBytes: number): boolean {
    return messageBytes + prefixBytes <= Math.min(window, windows.connection)
  }

  function hasRoom(messageBytes: number): boolean {
    return waiting.length === 0 && fits(messageBytes)
  }

  function write(message: Buffer): void {
    const bytes = message.length - frameHeaderBytes
    message.writeUIntBE(bytes, 0, 3)
    message.writeUInt16BE(frameTypes.data << 8, 3)
    message.writeUInt32BE(id, 5)
    message.writeUInt8(0, frameHeaderBytes)
    message.writeUInt32BE(bytes - prefixBytes, frameHeaderBytes + 1)
    window -= bytes
    windows.connection -= bytes
    push(message)
  }

  function writeWaiting(): void {
    for (let next = waiting[0]; next !== undefined; next = waiting[0]) {
      if (!fits(next.length - headroomBytes)) return
      waiting.shift()
      write(next)
    }
    if (ending) push(frame(frameTypes.data, flags.endStream, id, Buffer.alloc(0)))
    ending = false
  }

  return {
    read,
    hasRoom,
    send(message: Buffer): void {
      if (over) return
      if (hasRoom(message.length - headroomBytes)) write(message)
      else waiting.push(Buffer.from(message))
    },
    end(): void {
      ending = !over
      writeWaiting()
    },
    widen(bytes: number): void {
      window += bytes
      if (over) return
      writeWaiting()
      if (waiting.length === 0) listener.onRoom()
    },
    ended(wasReset: boolean): void {
      over = true
      listener.onEnd(wasReset)
    },
  }
}
