import type { NoEntry } from './route-secrets.ts'

/** The reason for a Secret that does not exist. */
export const noSecret = { missing: 'is not there' } as const satisfies NoEntry

/**
 * Returns the lines of a Secret's entry, without blank ones and without blanks around them, or the reason why
 * there are none. No reason quotes a line.
 */
export function readSecretLines(
  entries: Readonly<Record<string, string>> | undefined,
  key: string,
  maxLines: number,
): readonly string[] | { readonly missing: string } {
  if (entries === undefined) return noSecret
  const text = Object.hasOwn(entries, key) ? entries[key] : undefined
  if (text === undefined) return { missing: `has no entry ${key}` }
  const lines = text
    .split('\n')
    .map(line => line.trim())
    .filter(line => line !== '')
  if (lines.length === 0) return { missing: `has an empty entry ${key}` }
  if (lines.length > maxLines) return { missing: `has more than ${maxLines} lines in its entry ${key}` }
  return lines
}
