import { staticTable } from './hpack-static-table.ts'

/** The first index of each name in the static table, where several fields may have the same name. */
const nameIndices = new Map<string, number>()
const fieldIndices = new Map<string, number>()
for (const [position, [name, value]] of staticTable.entries()) {
  if (!nameIndices.has(name)) nameIndices.set(name, position + 1)
  fieldIndices.set(`${name}\0${value}`, position + 1)
}

/**
 * A size update to 0 (RFC 7541, 4.2). The first block must begin with a size update if the peer allows only a
 * smaller dynamic table than the default. A size of 0 is always right, since this encoder inserts no entries.
 */
export const emptyTableUpdate = Buffer.of(0x20)

/**
 * Encodes a header block (RFC 7541, 6) from texts whose characters are one byte each. It uses only the static
 * table and literals without indexing: the result does not depend on earlier blocks, so it can be encoded in
 * advance.
 */
export function encodeHeaderBlock(fields: readonly (readonly [name: string, value: string])[]): Buffer {
  const bytes: number[] = []
  for (const [name, value] of fields) {
    const index = fieldIndices.get(`${name}\0${value}`)
    if (index !== undefined) {
      pushInteger(bytes, index, 7, 0x80)
      continue
    }
    const nameIndex = nameIndices.get(name) ?? 0
    pushInteger(bytes, nameIndex, 4, 0)
    if (nameIndex === 0) pushText(bytes, name)
    pushText(bytes, value)
  }
  return Buffer.from(bytes)
}

function pushInteger(bytes: number[], value: number, prefixBits: number, pattern: number): void {
  const mask = (1 << prefixBits) - 1
  if (value < mask) {
    bytes.push(pattern | value)
    return
  }
  bytes.push(pattern | mask)
  let rest = value - mask
  for (; rest >= 0x80; rest >>>= 7) bytes.push((rest & 0x7f) | 0x80)
  bytes.push(rest)
}

function pushText(bytes: number[], text: string): void {
  pushInteger(bytes, text.length, 7, 0)
  for (let index = 0; index < text.length; index += 1) bytes.push(text.charCodeAt(index) & 0xff)
}
