import {
  frameBytes,
  frameFlags,
  frameTypes,
  settingIds,
  wordBytes,
} from '../../services/grpc/http2/frames/frames.ts'
import { encodeHeaderBlock } from '../../services/grpc/http2/hpack/hpack-encoder.ts'
import { grpcRequest } from '../bench/load/requests.ts'

/** The frames that a hostile caller sends on each of its connections, at the given rate. */
export interface Flood {
  readonly connections: number
  /** The rate of each connection. */
  readonly framesPerSecond: number
  /** Calls whose answers the caller does not take, since its windows are closed. */
  readonly blockedAnswers: number
  /** Sent once, before the flood. */
  readonly begin?: Buffer
  /** Returns the n-th frame of the flood, from 0, or several frames that belong together. */
  frame(n: number): Buffer
}

const path = '/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit'
const noBytes = Buffer.alloc(0)
/** 2.4 MB/s of WINDOW_UPDATE, and the same number of other frames. */
const lineRate = 184_000
/** The time between the start of an attacker and its flood, in which its blocked answers arrive. */
export const attackerQuietMs = 3000
/** The first stream after those of the blocked answers. */
const firstFreeStream = 4001

/** The head of a call, which gets an answer of some 40 bytes. */
export function callHeaders(streamId: number, flags: number = frameFlags.END_HEADERS, more = ''): Buffer {
  const fields: [string, string][] = [
    [':method', 'POST'],
    [':scheme', 'http'],
    [':path', path],
    ['content-type', 'application/grpc'],
    ['te', 'trailers'],
  ]
  if (more !== '') fields.push(['x-more', more])
  return frameBytes(frameTypes.HEADERS, flags, streamId, encodeHeaderBlock(fields))
}

const question = (value: string) =>
  grpcRequest({ domain: 'd', descriptors: [{ entries: [{ key: 'user', value }] }] })

export function wholeCall(streamId: number): Buffer {
  const body = frameBytes(frameTypes.DATA, frameFlags.END_STREAM, streamId, question('a caller'))
  return Buffer.concat([callHeaders(streamId), body])
}

export function initialWindow(bytes: number): Buffer {
  const payload = Buffer.alloc(6)
  payload.writeUInt16BE(settingIds.INITIAL_WINDOW_SIZE)
  payload.writeUInt32BE(bytes, 2)
  return frameBytes(frameTypes.SETTINGS, 0, 0, payload)
}

/** A field with a new name, which enters the table of HPACK and evicts others. */
function churn(streamId: number, n: number): Buffer {
  const name = `x-${n}`.padEnd(20, 'x')
  const value = `${n}`.padEnd(100, 'v')
  const field = Buffer.concat([
    Buffer.of(0x40, name.length),
    Buffer.from(name),
    Buffer.of(value.length),
    Buffer.from(value),
  ])
  const block = Buffer.concat([
    encodeHeaderBlock([
      [':method', 'POST'],
      [':scheme', 'http'],
      [':path', '/none'],
      ['content-type', 'application/grpc'],
    ]),
    field,
  ])
  return frameBytes(frameTypes.HEADERS, frameFlags.END_HEADERS | frameFlags.END_STREAM, streamId, block)
}

/** The head of a call, with a field of 4,000 bytes that enters the table of HPACK. */
function longField(streamId: number): Buffer {
  const head = encodeHeaderBlock([
    [':method', 'POST'],
    [':scheme', 'http'],
    [':path', path],
    ['content-type', 'application/grpc'],
  ])
  const field = Buffer.concat([Buffer.from('4001787fa11e', 'hex'), Buffer.alloc(4000, 'x')])
  const flags = frameFlags.END_HEADERS | frameFlags.END_STREAM
  return frameBytes(frameTypes.HEADERS, flags, streamId, Buffer.concat([head, field]))
}

/** 16 KB that refer to that field, 64 MB in all. */
const references = Buffer.alloc(16_000, 0xbe)

function longList(streamId: number): Buffer {
  const flags = frameFlags.END_HEADERS | frameFlags.END_STREAM
  return frameBytes(frameTypes.HEADERS, flags, streamId, references)
}

const windowUpdate = (streamId: number) => frameBytes(frameTypes.WINDOW_UPDATE, 0, streamId, wordBytes(1))
const widenConnection = windowUpdate(0)
const widenFirst = windowUpdate(1)
const ping = frameBytes(frameTypes.PING, 0, 0, Buffer.alloc(8))
const emptySettings = frameBytes(frameTypes.SETTINGS, 0, 0, noBytes)
const priority = frameBytes(frameTypes.PRIORITY, 0, firstFreeStream, Buffer.alloc(5))
const unknown = frameBytes(0x7f, 0, 0, Buffer.alloc(4))
const emptyData = frameBytes(frameTypes.DATA, 0, firstFreeStream, noBytes)

const at = (framesPerSecond: number, frame: Flood['frame'], more: Partial<Flood> = {}): Flood => ({
  connections: 1,
  framesPerSecond,
  blockedAnswers: 0,
  frame,
  ...more,
})

const blocked = { blockedAnswers: 990 }

export const floods = {
  'WINDOW_UPDATE of the connection': at(lineRate, () => widenConnection, blocked),
  'WINDOW_UPDATE of one stream': at(lineRate, () => widenFirst, blocked),
  'WINDOW_UPDATE of every stream': at(lineRate, n => windowUpdate(1 + 2 * (n % 990)), blocked),
  'SETTINGS, other windows': at(8_000, n => initialWindow(n % 2), { connections: 4, ...blocked }),
  'SETTINGS, empty': at(8_000, () => emptySettings, { connections: 4, ...blocked }),
  PING: at(lineRate, () => ping),
  'PING on 4 connections': at(8_000, () => ping, { connections: 4 }),
  PRIORITY: at(lineRate, () => priority),
  'unknown frames': at(lineRate, () => unknown),
  'empty DATA': at(lineRate, () => emptyData, { begin: callHeaders(firstFreeStream) }),
  'calls that are reset': at(8_000, n => {
    const id = firstFreeStream + 2 * n
    return Buffer.concat([callHeaders(id), frameBytes(frameTypes.RST_STREAM, 0, id, wordBytes(8))])
  }),
  'header lists of 64 MB': at(4_000, n => longList(firstFreeStream + 2 * n + 2), {
    begin: longField(firstFreeStream),
  }),
  'header fields that are always new': at(8_000, n => churn(firstFreeStream + 2 * n, n)),
} satisfies Record<string, Flood>

export type FloodName = keyof typeof floods
