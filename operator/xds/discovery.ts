import { create, fromBinary, toBinary } from '@bufbuild/protobuf'
import type { Codec } from '@tollway/grpc/server.ts'
import {
  type DiscoveryRequest,
  DiscoveryRequestSchema,
  DiscoveryResponseSchema,
} from '@tollway/proto/envoy/service/discovery/v3/discovery'
import type { Snapshot } from './snapshot.ts'
import type { Response } from './stream.ts'

export const discoveryPath =
  '/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources'

/**
 * The maximum number of cached encoded snapshots. Each stream with withheld contents has a snapshot of its
 * own; all other streams share one.
 */
const maxEncodedSnapshots = 4

/**
 * Reads requests and writes responses. The snapshot, which streams share, is encoded once: `encodeParts`
 * returns it as the first part, and the nonce of the stream as the second.
 */
export function createDiscoveryCodec(): Codec<DiscoveryRequest, Response> & {
  encodeParts(response: Response): readonly Uint8Array[]
} {
  const encoded = new Map<string, Buffer>()

  function encodeOnce(snapshot: Snapshot): Buffer {
    const known = encoded.get(snapshot.version)
    const bytes = known ?? encodeSnapshot(snapshot)
    encoded.delete(snapshot.version)
    encoded.set(snapshot.version, bytes)
    for (const oldest of encoded.keys()) {
      if (encoded.size <= maxEncodedSnapshots) break
      encoded.delete(oldest)
    }
    return bytes
  }

  /**
   * Relies on protobuf: two encoded messages, one after the other, decode as one message with the fields of
   * both.
   */
  function encodeParts({ nonce, snapshot }: Response): readonly Uint8Array[] {
    const ofStream = toBinary(DiscoveryResponseSchema, create(DiscoveryResponseSchema, { nonce }))
    return [encodeOnce(snapshot), ofStream]
  }

  return {
    decode: bytes => fromBinary(DiscoveryRequestSchema, bytes),
    encode: response => Buffer.concat(encodeParts(response)),
    encodeParts,
  }
}

/**
 * The tags of fields of DiscoveryResponse and Any: the field number, and wire type 2 for bytes after their
 * length.
 */
const tags = {
  versionInfo: (1 << 3) | 2,
  resources: (2 << 3) | 2,
  responseTypeUrl: (4 << 3) | 2,
  anyTypeUrl: (1 << 3) | 2,
  anyValue: (2 << 3) | 2,
}

/**
 * Encodes a snapshot as a DiscoveryResponse without a nonce. The resources are copied in their encoded form:
 * a message object for each of thousands of resources, most of them unchanged, would block the event loop.
 */
function encodeSnapshot({ version, typeUrl, resources, bytes }: Snapshot): Buffer {
  const typeBytes = Buffer.from(typeUrl)
  const versionBytes = Buffer.from(version)
  const ofTypeBytes = fieldBytes(typeBytes.length)
  const mostBytesOfHead = 1 + maxVarintBytes + ofTypeBytes + 1 + maxVarintBytes
  const most = fieldBytes(versionBytes.length) + resources.size * mostBytesOfHead + bytes + ofTypeBytes
  const target = Buffer.allocUnsafe(most)
  let at = writeField(target, 0, tags.versionInfo, versionBytes)
  for (const { bytes: value } of resources.values()) {
    at = writeHead(target, at, tags.resources, ofTypeBytes + fieldBytes(value.length))
    at = writeField(target, at, tags.anyTypeUrl, typeBytes)
    at = writeField(target, at, tags.anyValue, value)
  }
  return target.subarray(0, writeField(target, at, tags.responseTypeUrl, typeBytes))
}

/** The maximum number of bytes of a 32-bit length, encoded as a varint. */
const maxVarintBytes = 5

/**
 * Returns the encoded bytes of a field whose value has this length: a tag of one byte, the length and the
 * value.
 */
function fieldBytes(length: number): number {
  let bytes = 2
  for (let rest = length >>> 7; rest > 0; rest >>>= 7) bytes += 1
  return bytes + length
}

function writeField(target: Buffer, at: number, tag: number, value: Uint8Array): number {
  const end = writeHead(target, at, tag, value.length)
  target.set(value, end)
  return end + value.length
}

/** Writes a tag and a length. Returns the position after them. */
function writeHead(target: Buffer, at: number, tag: number, length: number): number {
  let end = target.writeUInt8(tag, at)
  let rest = length
  for (; rest > 0x7f; rest >>>= 7) end = target.writeUInt8((rest & 0x7f) | 0x80, end)
  return target.writeUInt8(rest, end)
}
