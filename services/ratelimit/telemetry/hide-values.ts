import { createHmac } from 'node:crypto'
import type { DescriptorEntry } from '../rules/match.ts'

/** Returns the entries of a descriptor in the form in which they may leave the process. */
export type ShowEntries = (entries: readonly DescriptorEntry[]) => readonly DescriptorEntry[]

const hashChars = 16

/**
 * Replaces each value by a hash of key, value and salt, so that equal values of one key can still be compared
 * among all processes that have the same salt.
 */
export function hideValues(salt: string): ShowEntries {
  return entries =>
    entries.map(({ key, value }) => ({
      key,
      value: createHmac('sha256', salt)
        .update(JSON.stringify([key, value]))
        .digest('hex')
        .slice(0, hashChars),
    }))
}
