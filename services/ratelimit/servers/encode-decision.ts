import { Buffer } from 'node:buffer'
import { BinaryWriter, WireType } from '@bufbuild/protobuf/wire'
import type { Json, JsonObject } from '@tollway/chassis/json.ts'
import { isList } from '@tollway/chassis/json.ts'
import type { DescriptorDecision, RateLimitDecision } from '../limiter/decision.ts'
import { responseUnits, toCode } from './wire-enums.ts'

type CurrentLimit = NonNullable<DescriptorDecision['limit']>

/** Returns a tag: the number of the field, and the wire type. All tags here have one byte. */
export const varint = (field: number) => field << 3
export const delimited = (field: number) => (field << 3) | 2

/**
 * Encodes an envoy.service.ratelimit.v3.RateLimitResponse with the same bytes as the generated encoder. Sizes
 * are computed first, so that the answer is written once, into a buffer of the exact size.
 *
 * Headers, the body and metadata, which are rare, have higher numbers than the statuses: their bytes are
 * appended.
 */
export function encodeDecision(decision: RateLimitDecision): Uint8Array {
  const { over, statuses, headers, body, metadata } = decision
  const bytes = encodeStatuses(over, statuses)
  if (headers === undefined && body === undefined && metadata === undefined) return bytes
  return Buffer.concat([bytes, encodeExtras(decision)])
}

function encodeStatuses(over: boolean, statuses: RateLimitDecision['statuses']): Buffer {
  let size = 2
  for (const status of statuses) size += messageSize(statusSize(status))
  const bytes = Buffer.allocUnsafe(size)
  let at = writeVarint(bytes, 0, varint(1), toCode(over))
  for (const status of statuses) {
    at = writeHead(bytes, at, delimited(2), statusSize(status))
    at = writeStatus(bytes, at, status)
  }
  return bytes
}

function statusSize({ remaining, limit }: DescriptorDecision): number {
  const size = 2 + uintSize(remaining)
  if (limit === undefined) return size
  const { resetSeconds } = limit
  const resetSize = resetSeconds === undefined ? 0 : messageSize(uintSize(resetSeconds))
  return size + messageSize(limitSize(limit)) + resetSize
}

function writeStatus(bytes: Buffer, start: number, { over, remaining, limit }: DescriptorDecision): number {
  let at = writeVarint(bytes, start, varint(1), toCode(over))
  if (limit !== undefined) {
    at = writeHead(bytes, at, delimited(2), limitSize(limit))
    at = writeLimit(bytes, at, limit)
  }
  at = writeUint(bytes, at, varint(3), remaining)
  if (limit?.resetSeconds === undefined) return at
  at = writeHead(bytes, at, delimited(4), uintSize(limit.resetSeconds))
  return writeUint(bytes, at, varint(1), limit.resetSeconds)
}

function limitSize({ name, requestsPerUnit, unit }: CurrentLimit): number {
  const size = uintSize(requestsPerUnit) + (unit === undefined ? 0 : 2)
  return name === '' ? size : size + messageSize(Buffer.byteLength(name))
}

function writeLimit(bytes: Buffer, start: number, { name, requestsPerUnit, unit }: CurrentLimit): number {
  let at = writeUint(bytes, start, varint(1), requestsPerUnit)
  if (unit !== undefined) at = writeVarint(bytes, at, varint(2), responseUnits[unit])
  if (name === '') return at
  at = writeHead(bytes, at, delimited(3), Buffer.byteLength(name))
  return at + bytes.write(name, at)
}

/** Returns 0 for the value 0, which proto3 leaves out. */
export function uintSize(value: number): number {
  return value === 0 ? 0 : 1 + varintSize(value)
}

/** Returns the size with the tag and the length. */
export function messageSize(length: number): number {
  return 1 + varintSize(length) + length
}

/** Returns the bytes of a varint up to 2^53-1: seconds until a reset have up to 39 bits. */
function varintSize(value: number): number {
  if (value < 0x80) return 1
  if (value < 0x4000) return 2
  if (value < 0x200000) return 3
  if (value < 0x10000000) return 4
  if (value < 2 ** 35) return 5
  if (value < 2 ** 42) return 6
  return value < 2 ** 49 ? 7 : 8
}

export function writeUint(bytes: Buffer, at: number, tag: number, value: number): number {
  return value === 0 ? at : writeVarint(bytes, at, tag, value)
}

export const writeHead = writeVarint

/** Returns the index after the written bytes. */
function writeVarint(bytes: Buffer, start: number, tag: number, value: number): number {
  let at = start
  let rest = value
  bytes[at++] = tag
  // Bit operations have only 32 bits.
  while (rest > 0xffffffff) {
    bytes[at++] = (rest % 0x80) | 0x80
    rest = Math.floor(rest / 0x80)
  }
  while (rest > 0x7f) {
    bytes[at++] = (rest & 0x7f) | 0x80
    rest >>>= 7
  }
  bytes[at++] = rest
  return at
}

/** The numbers of the fields that `encodeExtras` writes, from rls.proto, base.proto and struct.proto. */
const fields = {
  response: { responseHeadersToAdd: 3, rawBody: 5, dynamicMetadata: 6 },
  header: { key: 1, value: 2 },
  struct: { fields: 1 },
  entry: { key: 1, value: 2 },
  value: { null: 1, number: 2, string: 3, bool: 4, struct: 5, list: 6 },
  list: { values: 1 },
} as const

type Extras = Pick<RateLimitDecision, 'headers' | 'body' | 'metadata'>

/**
 * Encodes the rare fields of an envoy.service.ratelimit.v3.RateLimitResponse, with the same bytes as the
 * generated encoder. That encoder needs the descriptions of all messages in memory, 10 MiB for a process
 * without a feed.
 */
function encodeExtras({ headers = [], body, metadata }: Extras): Uint8Array {
  const writer = new BinaryWriter()
  for (const { key, value } of headers) {
    message(writer, fields.response.responseHeadersToAdd, () => {
      if (key !== '') text(writer, fields.header.key, key)
      if (value !== '') text(writer, fields.header.value, value)
    })
  }
  if (body !== undefined) text(writer, fields.response.rawBody, body)
  if (metadata !== undefined) {
    message(writer, fields.response.dynamicMetadata, () => writeStruct(writer, metadata))
  }
  return writer.finish()
}

function writeStruct(writer: BinaryWriter, struct: JsonObject): void {
  for (const [key, value] of Object.entries(struct)) {
    message(writer, fields.struct.fields, () => {
      text(writer, fields.entry.key, key)
      message(writer, fields.entry.value, () => writeValue(writer, value))
    })
  }
}

function writeValue(writer: BinaryWriter, value: Json): void {
  if (value === null) writer.tag(fields.value.null, WireType.Varint).int32(0)
  else if (typeof value === 'number') writer.tag(fields.value.number, WireType.Bit64).double(value)
  else if (typeof value === 'string') text(writer, fields.value.string, value)
  else if (typeof value === 'boolean') writer.tag(fields.value.bool, WireType.Varint).bool(value)
  else if (isList(value)) message(writer, fields.value.list, () => writeList(writer, value))
  else message(writer, fields.value.struct, () => writeStruct(writer, value))
}

function writeList(writer: BinaryWriter, values: readonly Json[]): void {
  for (const value of values) message(writer, fields.list.values, () => writeValue(writer, value))
}

function text(writer: BinaryWriter, field: number, value: string): void {
  writer.tag(field, WireType.LengthDelimited).string(value)
}

function message(writer: BinaryWriter, field: number, write: () => void): void {
  writer.tag(field, WireType.LengthDelimited).fork()
  write()
  writer.join()
}
