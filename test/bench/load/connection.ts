import { connect } from 'node:net'
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

/** A connection that sends one request after another, on streams of its own, and is told of each answer. */
export interface LoadConnection {
  /**
   * Sends the request; `done` comes with whether it ended with trailers. Collected until the end of the turn.
   */
  send(body: Uint8Array, done: (ok: boolean) => void): void
  close(): void
}

/** The receive window is topped up when half of it is used. */
const windowBytes = 0x3fffffff

export async function openLoadConnection(port: number, path: string): Promise<LoadConnection> {
  const socket = connect({ port, host: '127.0.0.1', noDelay: true })
  await new Promise<void>((resolve, reject) => socket.once('connect', resolve).once('error', reject))
  const blocks = headerBlocks(path, `127.0.0.1:${port}`)
  socket.write(Buffer.concat([preface, clientSettings, windowUpdate(windowBytes)]))
  const waiting = new Map<number, (ok: boolean) => void>()
  let nextStreamId = 1
  let outgoing: Uint8Array[] = []
  let received = 0
  let pending: Buffer = Buffer.alloc(0)

  function flush(): void {
    if (outgoing.length === 0) return
    socket.write(Buffer.concat(outgoing))
    outgoing = []
  }

  function push(...frames: readonly Uint8Array[]): void {
    if (outgoing.length === 0) setImmediate(flush)
    outgoing.push(...frames)
  }

  function finish(streamId: number, ok: boolean): void {
    const done = waiting.get(streamId)
    waiting.delete(streamId)
    done?.(ok)
  }

  function take(type: number, flagBits: number, streamId: number, payload: Buffer): void {
    const ended = (flagBits & flags.endStream) !== 0
    if (type === frameTypes.headers && ended) finish(streamId, true)
    else if (type === frameTypes.data) received += payload.length
    else if (type === frameTypes.resetStream) finish(streamId, false)
    else if (type === frameTypes.settings && (flagBits & flags.ack) === 0) {
      push(frame(frameTypes.settings, flags.ack, 0, Buffer.alloc(0)))
    } else if (type === frameTypes.ping && (flagBits & flags.ack) === 0) {
      push(frame(frameTypes.ping, flags.ack, 0, payload))
    }
    if (received > windowBytes / 2) {
      push(windowUpdate(received))
      received = 0
    }
  }

  socket.on('data', chunk => {
    const bytes = pending.length === 0 ? chunk : Buffer.concat([pending, chunk])
    let offset = 0
    while (bytes.length - offset >= frameHeaderBytes) {
      const end = offset + frameHeaderBytes + bytes.readUIntBE(offset, 3)
      if (end > bytes.length) break
      const streamId = bytes.readUInt32BE(offset + 5)
      const payload = bytes.subarray(offset + frameHeaderBytes, end)
      take(bytes[offset + 3] ?? 0, bytes[offset + 4] ?? 0, streamId, payload)
      offset = end
    }
    pending = bytes.subarray(offset)
  })
  socket.on('close', () => {
    for (const streamId of [...waiting.keys()]) finish(streamId, false)
  })
  socket.on('error', () => {})

  return {
    send(body, done) {
      const streamId = nextStreamId
      nextStreamId += 2
      waiting.set(streamId, done)
      const block = streamId === 1 ? blocks.first : blocks.later
      push(
        frame(frameTypes.headers, flags.endHeaders, streamId, block),
        frame(frameTypes.data, flags.endStream, streamId, body),
      )
    },
    close: () => void socket.destroy(),
  }
}
