import { HpackDecoder } from '../../../services/grpc/http2/hpack/hpack-decoder.ts'
import { createFrameReader } from '../../bench/load/frame-reader.ts'
import {
  clientSettings,
  flags,
  frame,
  frameTypes,
  headerBlocks,
  preface,
  requestTemplate,
  windowUpdate,
} from '../../bench/load/frames.ts'
import { openLoadSocket } from '../../bench/load/socket.ts'
import { readAnswer } from './answer.ts'

/** One connection that calls ShouldRateLimit with bare frames, and reports the outcome of each call. */
export interface CallConnection {
  send(body: Uint8Array, call: number): void
  /** Cancels the call; its outcome is not reported. */
  cancel(call: number): void
  close(): void
}

export interface CallListener {
  /** Returns the outcome of a RateLimitResponse. Defaults to `readAnswer`. */
  readonly read?: ((message: Buffer) => string) | undefined
  /** `OK`, `OVER_LIMIT`, or the number of the status and its message. */
  answered(call: number, outcome: string): void
  /** The server accepts no more calls on this connection, and has not begun these. */
  goAway(notBegun: readonly number[]): void
  /** The connection ended without answers to these calls. */
  lost(unanswered: readonly number[]): void
}

const path = '/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit'
const windowBytes = 0x3fffffff
const grpcPrefixBytes = 5
const cancelled = Buffer.from([0, 0, 0, 8])
const empty = Buffer.alloc(0)
const maxHeaderListBytes = 65_536

interface OpenCall {
  readonly call: number
  outcome: string
}

/**
 * Connects, and resolves after the SETTINGS of the server, as clients of gRPC do: a server that closes its
 * port resets the connections that it has not accepted yet. Rejects for these, for a server that sends GOAWAY
 * together with its SETTINGS, and when the port has no listener.
 */
export async function openCallConnection(port: number, listener: CallListener): Promise<CallConnection> {
  const { read = readAnswer } = listener
  const blocks = headerBlocks(path, `127.0.0.1:${port}`)
  const first = requestTemplate(blocks.first)
  const later = requestTemplate(blocks.later)
  const headers = new HpackDecoder(maxHeaderListBytes)
  const open = new Map<number, OpenCall>()
  const streams = new Map<number, number>()
  let nextStreamId = 1
  let received = 0
  const settings = Promise.withResolvers<void>()
  let isReady = false
  let isLeaving = false
  const socket = await openLoadSocket(port, createFrameReader(take), () => {
    if (!isReady) return settings.reject(new Error('the connection ended before the SETTINGS of the server'))
    const unanswered = [...open.values()].map(({ call }) => call)
    open.clear()
    listener.lost(unanswered)
  })
  socket.push(Buffer.concat([preface, clientSettings, windowUpdate(windowBytes)]))

  function finish(streamId: number, outcome: string | undefined): void {
    const ended = forget(streamId)
    if (ended !== undefined) listener.answered(ended.call, outcome ?? ended.outcome)
  }

  function forget(streamId: number): OpenCall | undefined {
    const ended = open.get(streamId)
    if (ended === undefined) return undefined
    open.delete(streamId)
    streams.delete(ended.call)
    return ended
  }

  function take(type: number, flagBits: number, streamId: number, payload: Buffer): void {
    const ends = (flagBits & flags.endStream) !== 0
    const acknowledges = (flagBits & flags.ack) !== 0
    if (type === frameTypes.data) {
      count(payload.length)
      const openCall = open.get(streamId)
      if (openCall !== undefined) openCall.outcome = read(payload.subarray(grpcPrefixBytes))
    } else if (type === frameTypes.headers) {
      const { fields } = headers.decode(payload, 0, payload.length)
      if (ends) finish(streamId, findError(fields))
    } else if (type === frameTypes.resetStream) {
      finish(streamId, `RST_STREAM ${payload.readUInt32BE(0)}`)
    } else if (type === frameTypes.settings && !acknowledges) {
      isReady = true
      settings.resolve()
      socket.push(frame(frameTypes.settings, flags.ack, 0, empty))
    } else if (type === frameTypes.ping && !acknowledges) {
      socket.push(frame(frameTypes.ping, flags.ack, 0, Buffer.from(payload)))
    } else if (type === frameTypes.goAway) leave(payload.readUInt32BE(0))
  }

  function leave(lastStreamId: number): void {
    isLeaving = true
    const notBegun = [...open.keys()].filter(streamId => streamId > lastStreamId)
    listener.goAway(notBegun.flatMap(streamId => forget(streamId)?.call ?? []))
  }

  function count(bytes: number): void {
    received += bytes
    if (received <= windowBytes / 2) return
    socket.push(windowUpdate(received))
    received = 0
  }

  await settings.promise
  if (isLeaving) {
    socket.close()
    throw new Error('the server sent GOAWAY with its SETTINGS')
  }
  return {
    send(body, call) {
      const streamId = nextStreamId
      nextStreamId += 2
      open.set(streamId, { call, outcome: 'no message' })
      streams.set(call, streamId)
      socket.push((streamId === 1 ? first : later)(streamId, body))
    },
    cancel(call) {
      const streamId = streams.get(call)
      if (streamId === undefined) return
      forget(streamId)
      socket.push(frame(frameTypes.resetStream, 0, streamId, cancelled))
    },
    close: socket.close,
  }
}

/** Returns the number of the status and its message; undefined for the status OK. */
function findError(fields: readonly string[]): string | undefined {
  const field = (name: string) => {
    const index = fields.indexOf(name)
    return index === -1 ? undefined : fields[index + 1]
  }
  const status = field('grpc-status')
  if (status === '0') return undefined
  return `${status} ${decodeURIComponent(field('grpc-message') ?? '')}`
}
