import type { DecisionRequest } from '../../limiter/decision.ts'
import type { DescriptorEntry } from '../../rules/match.ts'

/** Half of the recorded keys are dropped at most this many times. */
export const maxHalvings = 20

/** Only this many code units at each end of a value are hashed, so a longer value costs no more. */
const sampledUnits = 32

/**
 * Returns whether the descriptor is among the keys that remain after this number of halvings. That depends
 * only on the values of its entries: either all calls of a key are recorded or none, in every process.
 */
export function isSampled(entries: readonly DescriptorEntry[], halvings: number): boolean {
  return halvings === 0 || Math.clz32(hashValues(entries)) >= halvings
}

export function hasSampled({ descriptors }: DecisionRequest, halvings: number): boolean {
  for (const { entries } of descriptors) if (isSampled(entries, halvings)) return true
  return false
}

/** Computes FNV-1a and then the final mix of MurmurHash3, which makes the upper bits uniform. */
function hashValues(entries: readonly DescriptorEntry[]): number {
  let hash = 0x11c9dc5
  for (const { value } of entries) {
    const { length } = value
    const head = Math.min(length, sampledUnits)
    for (let at = 0; at < head; at++) hash = Math.imul(hash ^ value.charCodeAt(at), 0x01000193)
    for (let at = Math.max(head, length - sampledUnits); at < length; at++) {
      hash = Math.imul(hash ^ value.charCodeAt(at), 0x01000193)
    }
    hash = Math.imul(hash ^ length ^ 0x10000, 0x01000193)
  }
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b)
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35)
  return hash ^ (hash >>> 16)
}
