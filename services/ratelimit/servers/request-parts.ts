import { BinaryReader, WireType } from '@bufbuild/protobuf/wire'

/**
 * The most descriptors and entries of one request, together. A megabyte can hold half a million, and each
 * costs the decoder a hundred times its bytes: so they are counted before anything is decoded.
 */
export const maxParts = 10_000

/** Numbers of the fields that repeat: descriptors in the request, entries in a descriptor. */
const repeated = [2, 1] as const

/** Whether the encoded request has more parts than that. Throws for bytes that are no message. */
export function hasTooManyParts(bytes: Uint8Array): boolean {
  // Each part has two bytes at least, so an ordinary request need not be looked at.
  return bytes.length > 2 * maxParts && countParts(bytes, 0) > maxParts
}

function countParts(bytes: Uint8Array, depth: number): number {
  const field = repeated[depth]
  if (field === undefined) return 0
  const reader = new BinaryReader(bytes)
  let count = 0
  while (reader.pos < reader.len && count <= maxParts) {
    const [number, wireType] = reader.tag()
    if (number === field && wireType === WireType.LengthDelimited) {
      count += 1 + countParts(reader.bytes(), depth + 1)
    } else reader.skip(wireType, number)
  }
  return count
}

/** The same of a request as JSON, whatever else may be wrong with it. */
export function hasTooManyPartsJson(json: unknown): boolean {
  let count = 0
  for (const descriptor of listIn(json, 'descriptors')) {
    count += 1 + listIn(descriptor, 'entries').length
    if (count > maxParts) return true
  }
  return false
}

function listIn(json: unknown, name: string): readonly unknown[] {
  const found: unknown = Object(json)[name]
  return Array.isArray(found) ? found : []
}
