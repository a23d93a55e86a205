import { connect } from 'node:net'
import type { TestContext } from 'node:test'
import { waitFor } from '../../server/testing/contract/support.ts'
import { FrameReader } from '../frames/frame-reader.ts'
import { errorCodes, frameBytes, frameFlags, frameTypes, preface, wordBytes } from '../frames/frames.ts'
import { encodeHeaderBlock } from '../hpack/hpack-encoder.ts'

export interface ReceivedFrame {
  readonly type: string
  readonly flags: number
  readonly streamId: number
  readonly payload: Buffer
}

type Fields = readonly (readonly [string, string])[]

export const requestFields = (path: string, more: Fields = []): Fields => [
  [':method', 'POST'],
  [':scheme', 'http'],
  [':path', path],
  ['content-type', 'application/grpc'],
  ['te', 'trailers'],
  ...more,
]

const typeNames = new Map<number, string>(Object.entries(frameTypes).map(([name, type]) => [type, name]))

/** Opens a client that sends the frames of a test, valid or not, and keeps the received ones. */
export async function openRawClient(t: TestContext, port: number, settings: Uint8Array = Buffer.alloc(0)) {
  const socket = connect({ port, host: '127.0.0.1', noDelay: true })
  t.after(() => socket.destroy())
  const received: ReceivedFrame[] = []
  let closed = false
  const reader = new FrameReader((type, flags, streamId, buffer, start, end) => {
    const payload = buffer.subarray(start, end)
    received.push({ type: typeNames.get(type) ?? String(type), flags, streamId, payload })
  })
  reader.read(preface)
  socket.on('data', (chunk: Buffer) => reader.read(chunk)).on('error', () => {})
  socket.once('close', () => (closed = true))
  await new Promise(resolve => socket.once('connect', resolve))

  const write = (bytes: Uint8Array) => void socket.write(bytes)
  const send = (type: number, flags: number, streamId: number, payload: Uint8Array = Buffer.alloc(0)) =>
    write(frameBytes(type, flags, streamId, payload))

  /** The index after the last frame that a wait has found: the next wait begins there. */
  let seen = 0
  async function next(type: keyof typeof frameTypes, streamId?: number): Promise<ReceivedFrame> {
    let found: ReceivedFrame | undefined
    await waitFor(`${type} of stream ${streamId ?? 'any'}`, () => {
      for (; seen < received.length && !found; seen += 1) {
        const frame = received[seen]
        if (frame?.type === type && (streamId ?? frame.streamId) === frame.streamId) found = frame
      }
      return found !== undefined
    })
    if (!found) throw new Error('waitFor returned too early')
    return found
  }

  write(preface)
  send(frameTypes.SETTINGS, 0, 0, settings)
  return {
    socket,
    received,
    isClosed: () => closed,
    write,
    send,
    next,
    begin(streamId: number, fields: Fields, endStream = false): void {
      const end = endStream ? frameFlags.END_STREAM : 0
      send(frameTypes.HEADERS, frameFlags.END_HEADERS | end, streamId, encodeHeaderBlock(fields))
    },
    data(streamId: number, payload: Uint8Array, endStream = true): void {
      send(frameTypes.DATA, endStream ? frameFlags.END_STREAM : 0, streamId, payload)
    },
    reset: (streamId: number) => send(frameTypes.RST_STREAM, 0, streamId, wordBytes(errorCodes.CANCEL)),
    widen: (streamId: number, bytes: number) => send(frameTypes.WINDOW_UPDATE, 0, streamId, wordBytes(bytes)),
    bodyOf(streamId: number): Buffer {
      const frames = received.filter(frame => frame.type === 'DATA' && frame.streamId === streamId)
      return Buffer.concat(frames.map(frame => frame.payload))
    },
  }
}

/** Returns the name of the error in a GOAWAY or RST_STREAM. */
export function errorOf({ type, payload }: ReceivedFrame): string | undefined {
  const code = payload.readUInt32BE(type === 'GOAWAY' ? 4 : 0)
  return Object.entries(errorCodes).find(([, known]) => known === code)?.[0]
}

/** Returns the payload of a SETTINGS frame. */
export function settingsPayload(...settings: readonly (readonly [id: number, value: number])[]): Buffer {
  const payload = Buffer.alloc(settings.length * 6)
  for (const [index, [id, value]] of settings.entries()) {
    payload.writeUInt16BE(id, index * 6)
    payload.writeUInt32BE(value, index * 6 + 2)
  }
  return payload
}
