import { GrpcError } from '@tollway/grpc/status.ts'
import { maxCount } from '../counters/counters.ts'
import { appendItem } from '../limiter/append-item.ts'
import { type DecisionRequest, type DescriptorRequest, maxParts } from '../limiter/decision.ts'
import type { DescriptorEntry } from '../rules/match.ts'
import { overrideUnits } from './wire-enums.ts'
import { ProtobufReader, StringInterner } from './wire-reader.ts'

const words = new StringInterner()

/**
 * Decodes an envoy.service.ratelimit.v3.RateLimitRequest, with the same result as
 * `toDecisionRequest(fromBinary(...))` but without the messages in between. The field numbers are those of
 * the .proto files.
 *
 * Like the generated decoder, it identifies a field only by the number in the tag, and reads the type of the
 * schema, whatever the wire type of the tag. Both decoders throw for the same bytes, and have the same result
 * for all others.
 *
 * @throws GrpcError INVALID_ARGUMENT as soon as there are more than `maxParts` descriptors and entries
 */
export function decodeDecisionRequest(bytes: Uint8Array): DecisionRequest {
  const reader = new ProtobufReader(bytes)
  let descriptors: DescriptorRequest[] | undefined
  let domain = ''
  let hitsAddend = 0
  let partsLeft = maxParts
  while (reader.at < reader.length) {
    const tag = reader.tag()
    switch (tag >>> 3) {
      case 1:
        domain = reader.word(words)
        break
      case 2: {
        const descriptor = readDescriptor(reader, partsLeft - 1)
        descriptors = appendItem(descriptors, descriptor)
        partsLeft -= 1 + descriptor.entries.length
        break
      }
      case 3:
        hitsAddend = reader.uint32()
        break
      default:
        reader.skip(tag, 1)
    }
  }
  return { domain, descriptors: descriptors ?? [], hitsAddend }
}

/** Reads a descriptor; throws a GrpcError if it has more entries than allowed. */
export function readDescriptor(reader: ProtobufReader, entriesAllowed: number): DescriptorRequest {
  if (entriesAllowed < 0) throw tooManyParts()
  let entries: DescriptorEntry[] | undefined
  let limit: DescriptorRequest['limit']
  let hitsAddend: number | undefined
  let givesBack = false
  const end = reader.messageEnd()
  while (reader.at < end) {
    const tag = reader.tag()
    switch (tag >>> 3) {
      case 1:
        if ((entries?.length ?? 0) === entriesAllowed) throw tooManyParts()
        entries = appendItem(entries, readEntry(reader))
        break
      case 2:
        limit = readLimit(reader, limit)
        break
      case 3:
        hitsAddend = readWrappedCount(reader, hitsAddend)
        break
      case 4:
        givesBack = reader.uint64() !== 0
        break
      default:
        reader.skip(tag, 2)
    }
  }
  return { entries: entries ?? [], hitsAddend, givesBack, limit }
}

/** Reads an entry of a descriptor, or of the map of a bucket id, which has the same fields. */
export function readEntry(reader: ProtobufReader): DescriptorEntry {
  let key = ''
  let value = ''
  const end = reader.messageEnd()
  while (reader.at < end) {
    const tag = reader.tag()
    switch (tag >>> 3) {
      case 1:
        key = reader.word(words)
        break
      case 2:
        value = reader.string()
        break
      default:
        reader.skip(tag, 3)
    }
  }
  return { key, value }
}

/**
 * Reads the limit of a descriptor. A message that occurs twice is merged: later fields replace earlier ones,
 * and other earlier fields are kept.
 */
function readLimit(reader: ProtobufReader, earlier: DescriptorRequest['limit']): DescriptorRequest['limit'] {
  let requestsPerUnit = earlier?.requestsPerUnit ?? 0
  let unit = earlier?.unit
  const end = reader.messageEnd()
  while (reader.at < end) {
    const tag = reader.tag()
    switch (tag >>> 3) {
      case 1:
        requestsPerUnit = reader.uint32()
        break
      case 2:
        unit = overrideUnits[reader.uint32()]
        break
      default:
        reader.skip(tag, 3)
    }
  }
  return { requestsPerUnit, unit }
}

/** Reads a UInt64Value. A value above `maxCount` becomes `maxCount`. */
function readWrappedCount(reader: ProtobufReader, earlier = 0): number {
  let count = earlier
  const end = reader.messageEnd()
  while (reader.at < end) {
    const tag = reader.tag()
    if (tag >>> 3 === 1) count = Math.min(reader.uint64(), maxCount)
    else reader.skip(tag, 3)
  }
  return count
}

function tooManyParts(): GrpcError {
  return new GrpcError('INVALID_ARGUMENT', `descriptors: at most ${maxParts} and their entries are allowed`)
}
