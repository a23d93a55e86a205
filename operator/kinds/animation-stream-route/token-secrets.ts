import { createHash } from 'node:crypto'
import type { NoEntry, SecretPlace } from './route-secrets.ts'
import { readSecretLines } from './secret-lines.ts'

/** The tokens in one place. Only the reader of a Secret has the tokens; all other code has their hashes. */
export type Tokens =
  /** `forbidden`: the operator may no longer read the Secret, so these values may be outdated. */
  { readonly hashes: readonly Uint8Array[]; readonly forbidden?: string } | NoEntry

/** The maximum of tokens in an entry. A rotation needs two. */
const maxTokens = 16
/** The characters of a bearer token in a header: visible ASCII. */
const tokenForm = /^[\x21-\x7e]{1,4096}$/

/** Reads the tokens of an entry, one in each line. Blanks around a token are not part of it. */
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
