import type { DescriptorEntry } from '../rules/match.ts'

/**
 * The hash that the functions of this module compute, as two 32-bit numbers. There is only one such object,
 * so that a call allocates nothing. Callers can choose texts with equal hashes, so use the hash for estimates
 * only.
 */
export const contentHash = { low: 0, high: 0 }

export function startHash(): void {
  contentHash.low = 0x11c9dc5
  contentHash.high = 0x2f0b4a27
}

/** FNV-1a in `low`, a second hash of the same form in `high`. Returns the text's length. */
export function hashText(text: string): number {
  const { length } = text
  let { low, high } = contentHash
  for (let at = 0; at < length; at++) {
    const unit = text.charCodeAt(at)
    low = Math.imul(low ^ unit, 0x01000193)
    high = (Math.imul(high ^ unit, 0x5bd1e995) + 1) | 0
  }
  contentHash.low = Math.imul(low ^ (length | 0x10000), 0x01000193)
  contentHash.high = Math.imul(high ^ (high >>> 15), 0x5bd1e995)
  return length
}

export function hashNumber(value: number): void {
  contentHash.low = Math.imul(contentHash.low ^ (value | 0), 0x01000193)
  const upper = Math.trunc(value / 0x100000000)
  contentHash.high = (Math.imul(contentHash.high ^ upper, 0x5bd1e995) + (value | 0)) | 0
}

/** Adds keys, values and their number to the hash. Returns the total length of all keys and values. */
export function hashEntries(entries: readonly DescriptorEntry[]): number {
  let length = 0
  for (const { key, value } of entries) length += hashText(key) + hashText(value)
  hashNumber(entries.length)
  return length
}
