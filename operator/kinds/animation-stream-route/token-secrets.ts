import { createHash } from 'node:crypto'
import type { NoEntry, SecretPlace } from './route-secrets.ts'
import { readSecretLines } from './secret-lines.ts'

/**
 * The state of the tokens in one place. Only the reader of a Secret sees tokens; all others see their hashes.
 */
export type Tokens =
  /** `forbidden`: the Secret may not be read any more, so that these may be old. */
  { readonly hashes: readonly Uint8Array[]; readonly forbidden?: string } | NoEntry

/** Of one entry: more than a rotation needs. */
const maxTokens = 16
/** What a header carries as a bearer token: visible ASCII. */
const tokenForm = /^[\x21-\x7e]{1,4096}$/

/** The tokens of a Secret's entry, a line each; blanks around them are not part of them. */
export function hashTokens(
  entries: Readonly<Record<string, string>> | undefined,
  { key }: Pick<SecretPlace, 'key'>,
): Tokens {
  const tokens = readSecretLines(entries, key, maxTokens)
  if ('missing' in tokens) return tokens
  if (!tokens.every(token => tokenForm.test(token))) {
    const allowed = 'up to 4096 letters, digits and signs of ASCII without blanks'
    return { missing: `has an entry ${key} that no caller can send; a token is ${allowed}` }
  }
  return { hashes: tokens.map(token => createHash('sha256').update(token).digest()) }
}
