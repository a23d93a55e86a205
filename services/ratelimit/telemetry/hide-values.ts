import { createHmac } from 'node:crypto'
import type { DescriptorEntry } from '../rules/match.ts'

/** Returns the entries of a descriptor as they may leave the process. */
export type ShowEntries = (entries: readonly DescriptorEntry[]) => readonly DescriptorEntry[]

const hashChars = 16

/**
 * Replaces each value by a hash that depends on its key and on the salt, so that equal values of one key stay
 * comparable over all processes with the same salt.
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
