/** The number of slots among which Redis Cluster divides all keys. */
export const slotCount = 16_384

const table = new Uint16Array(256)
for (let byte = 0; byte < 256; byte += 1) {
  let crc = byte << 8
  for (let bit = 0; bit < 8; bit += 1) crc = crc & 0x8000 ? (crc << 1) ^ 0x1021 : crc << 1
  table[byte] = crc
}

/**
 * Returns the slot of a key: CRC16 (XMODEM) of its UTF-8 text or, if the key has a hash tag, of the text
 * between the first `{` and the next `}`, unless that is empty
 * (https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/).
 */
export function findHashSlot(key: string): number {
  const open = key.indexOf('{')
  if (open < 0) return crc16(key, 0, key.length) % slotCount
  const close = key.indexOf('}', open + 1)
  const tagged = close > open + 1
  return (tagged ? crc16(key, open + 1, close) : crc16(key, 0, key.length)) % slotCount
}

function crc16(text: string, start: number, end: number): number {
  let crc = 0
  for (let index = start; index < end; index += 1) {
    const unit = text.charCodeAt(index)
    if (unit > 0x7f) return crc16OfBytes(Buffer.from(text.slice(start, end)))
    crc = ((crc << 8) & 0xffff) ^ (table[(crc >>> 8) ^ unit] ?? 0)
  }
  return crc
}

function crc16OfBytes(bytes: Uint8Array): number {
  let crc = 0
  for (const byte of bytes) crc = ((crc << 8) & 0xffff) ^ (table[(crc >>> 8) ^ byte] ?? 0)
  return crc
}

/** For each slot its hash tag. Listed when one is needed, because it takes some milliseconds. */
let hashTags: readonly string[] | undefined

/** Returns the shortest text of letters and digits that, as a hash tag, puts other keys into the slot of this one. */
export function findHashTag(key: string): string {
  hashTags ??= listHashTags()
  return `${hashTags[findHashSlot(key)]}`
}

function listHashTags(): readonly string[] {
  const tags: string[] = Array(slotCount)
  let missing = slotCount
  for (let number = 0; missing > 0; number += 1) {
    const tag = number.toString(36)
    const slot = findHashSlot(tag)
    if (tags[slot] !== undefined) continue
    tags[slot] = tag
    missing -= 1
  }
  return tags
}
