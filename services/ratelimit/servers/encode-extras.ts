import { BinaryWriter, WireType } from '@bufbuild/protobuf/wire'
import type { Json, JsonObject } from '@tollway/chassis/json.ts'
import { isList } from '@tollway/chassis/json.ts'
import type { Decision } from '../limiter/decision.ts'

/** The field numbers of the messages that are written, from rls.proto, base.proto and struct.proto. */
const fields = {
  response: { responseHeadersToAdd: 3, rawBody: 5, dynamicMetadata: 6 },
  header: { key: 1, value: 2 },
  struct: { fields: 1 },
  entry: { key: 1, value: 2 },
  value: { null: 1, number: 2, string: 3, bool: 4, struct: 5, list: 6 },
  list: { values: 1 },
} as const

type Extras = Pick<Decision, 'headers' | 'body' | 'metadata'>

/**
 * Encodes the rare fields of an envoy.service.ratelimit.v3.RateLimitResponse, with the same bytes as the
 * generated encoder. That encoder needs the descriptions of all messages in memory, 10 MiB for a process
 * without a feed.
 */
export function encodeExtras({ headers = [], body, metadata }: Extras): Uint8Array {
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
