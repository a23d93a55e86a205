import { createFrameReader } from './frame-reader.ts'
import {
  clientSettings,
  flags,
  frame,
  frameTypes,
  headerBlocks,
  preface,
  requestTemplate,
  windowUpdate,
} from './frames.ts'
import type { LoadListener, OpenConnection } from './load-connection.ts'
import { openLoadSocket } from './socket.ts'

export interface GrpcLoadTarget {
  readonly port: number
  /** `/package.Service/Method`. */
  readonly path: string
  /** Returns whether an answer's message, without its gRPC prefix, is the expected one. */
  readonly expects: (message: Buffer) => boolean
  /** A second request after each expected answer; the two count as one call of the load. */
  readonly followUp?: SecondRequest
}

interface SecondRequest {
  readonly path: string
  /** Makes the request from the message of the first answer. */
  readonly bodyOf: (message: Buffer) => Uint8Array
}

/** The receive window, which is refilled when half of it is used. */
const windowBytes = 0x3fffffff
const grpcPrefixBytes = 5

/**
 * Makes unary calls with bare HTTP/2 frames, so that the load costs much less than the server. An answer is
 * correct when an expected message arrived in one DATA frame before the trailers: an error of gRPC has no
 * message.
 */
export function grpcLoad(target: GrpcLoadTarget): OpenConnection {
  return listener => openGrpcConnection(target, listener)
}

interface PendingCall {
  readonly call: number
  ok: boolean
  /** The second request, if this one was the first and its answer the expected one. */
  second?: Uint8Array
  readonly isSecond: boolean
}

async function openGrpcConnection({ port, path, expects, followUp }: GrpcLoadTarget, listener: LoadListener) {
  const blocks = headerBlocks(path, `127.0.0.1:${port}`)
  const first = requestTemplate(blocks.first)
  const later = requestTemplate(blocks.later)
  const second = followUp && requestTemplate(blocks.withPath(followUp.path))
  const pending = new Map<number, PendingCall>()
  const reader = createFrameReader(take)
  const socket = await openLoadSocket(port, reader, listener.lost)
  socket.push(Buffer.concat([preface, clientSettings, windowUpdate(windowBytes)]))
  let nextStreamId = 1
  let received = 0

  function finish(streamId: number, ok: boolean): void {
    const ended = pending.get(streamId)
    if (ended === undefined) return
    pending.delete(streamId)
    if (ok && second && ended.second)
      open(second, ended.second, { call: ended.call, ok: false, isSecond: true })
    else listener.answered(ended.call, ok)
  }

  function open(template: typeof later, body: Uint8Array, call: PendingCall): void {
    const streamId = nextStreamId
    nextStreamId += 2
    pending.set(streamId, call)
    socket.push(template(streamId, body))
  }

  function take(type: number, flagBits: number, streamId: number, payload: Buffer): void {
    if (type === frameTypes.data) {
      count(payload.length)
      const asked = pending.get(streamId)
      if (asked !== undefined) takeMessage(asked, payload.subarray(grpcPrefixBytes))
    } else if (type === frameTypes.headers && (flagBits & flags.endStream) !== 0) {
      finish(streamId, pending.get(streamId)?.ok === true)
    } else if (type === frameTypes.resetStream) finish(streamId, false)
    else if (type === frameTypes.settings && (flagBits & flags.ack) === 0) {
      socket.push(frame(frameTypes.settings, flags.ack, 0, Buffer.alloc(0)))
    } else if (type === frameTypes.ping && (flagBits & flags.ack) === 0) {
      socket.push(frame(frameTypes.ping, flags.ack, 0, Buffer.from(payload)))
    } else if (type === frameTypes.goAway) listener.lost(`port ${port} sent GOAWAY`)
  }

  function takeMessage(asked: PendingCall, message: Buffer): void {
    asked.ok = asked.isSecond || expects(message)
    if (asked.ok && followUp && !asked.isSecond) asked.second = followUp.bodyOf(message)
  }

  function count(bytes: number): void {
    received += bytes
    if (received <= windowBytes / 2) return
    socket.push(windowUpdate(received))
    received = 0
  }

  return {
    send(body: Uint8Array, call: number) {
      open(nextStreamId === 1 ? first : later, body, { call, ok: false, isSecond: false })
    },
    close: socket.close,
  }
}
