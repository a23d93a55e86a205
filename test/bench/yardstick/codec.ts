/**
 * The two messages of ShouldRateLimit with a handwritten codec: a yardstick with a general codec would be too
 * slow. Only the fields that the benchmarks send are supported.
 */

const domainField = 10
const descriptorField = 18
const okCode = 1
const overLimitCode = 2
const dayUnit = 4

/** Returns the Redis keys of each descriptor: `domain_key_value_…_`. */
export function readKeys(bytes: Buffer): string[] {
  const keys: string[] = []
  let domain = ''
  let at = 0
  while (at < bytes.length) {
    const field = bytes[at++]
    let length = bytes[at++] ?? 0
    if (length > 127) length = (length & 127) | ((bytes[at++] ?? 0) << 7)
    const end = at + length
    if (field === domainField) domain = bytes.toString('latin1', at, end)
    else if (field === descriptorField) keys.push(readKey(bytes, at, end, domain))
    at = end
  }
  return keys
}

/** Both the entry and its fields have a tag and a length of one byte each, since texts are short here. */
function readKey(bytes: Buffer, start: number, end: number, domain: string): string {
  let key = `${domain}_`
  let at = start
  while (at < end) {
    const entryEnd = at + 2 + (bytes[at + 1] ?? 0)
    at += 2
    while (at < entryEnd) {
      const textEnd = at + 2 + (bytes[at + 1] ?? 0)
      key += `${bytes.toString('latin1', at + 2, textEnd)}_`
      at = textEnd
    }
  }
  return key
}

const maxStatusBytes = 32

/** Returns the answer for the values of the counters after this call. */
export function writeResponse(values: readonly number[], limit: number): Buffer {
  const bytes = Buffer.allocUnsafe(2 + values.length * maxStatusBytes)
  let overall = okCode
  let at = 2
  for (const value of values) {
    const code = value > limit ? overLimitCode : okCode
    if (code === overLimitCode) overall = overLimitCode
    bytes[at] = descriptorField
    const status = at + 2
    bytes[status] = 8
    bytes[status + 1] = code
    bytes[status + 2] = 18
    bytes[status + 4] = 8
    let end = writeVarint(bytes, status + 5, limit)
    bytes[end++] = 16
    bytes[end++] = dayUnit
    bytes[status + 3] = end - status - 4
    bytes[end++] = 24
    end = writeVarint(bytes, end, Math.max(0, limit - value))
    bytes[at + 1] = end - status
    at = end
  }
  bytes[0] = 8
  bytes[1] = overall
  return bytes.subarray(0, at)
}

function writeVarint(bytes: Buffer, start: number, value: number): number {
  let at = start
  let rest = value
  while (rest > 127) {
    bytes[at++] = (rest & 127) | 128
    rest = Math.floor(rest / 128)
  }
  bytes[at++] = rest
  return at
}
