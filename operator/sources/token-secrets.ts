import { createHash } from 'node:crypto'

/** Where tokens stand. */
export interface TokenPlace {
  readonly namespace: string
  readonly secret: string
  readonly key: string
}

/** What is known of the tokens in one place. Who reads a Secret sees a token; all others see its hash. */
export type Tokens =
  /** `forbidden`: the Secret may not be read any more, so that these may be old. */
  | { readonly hashes: readonly Uint8Array[]; readonly forbidden?: string }
  /** Why there are none, as the end of a sentence that begins with the Secret's name. */
  | { readonly missing: string }
  /** The Secret may not be read: what grants it, as a sentence. */
  | { readonly forbidden: string }
  /** It has not been looked at yet. */
  | { readonly unknown: true }

/** Tokens in Secrets, each looked at by its name. */
export interface TokenSecrets {
  /**
   * These places are looked at from now on, and no others. Resolves when each of them has been looked at once, and
   * after a while in any case.
   */
  follow(places: readonly TokenPlace[]): Promise<void>
  /** Of a place that is followed. The same object as long as nothing has changed. */
  tokens(place: TokenPlace): Tokens
  /** Called after each change of what `tokens` tells. */
  onChange(listener: () => void): void
}

/** Of one entry: more than a rotation needs. */
const maxTokens = 16
/** What a header carries as a bearer token: visible ASCII. */
const tokenForm = /^[\x21-\x7e]{1,4096}$/

/** The tokens of a Secret's entry, a line each; blanks around them are not part of them. */
export function hashTokens(
  entries: Readonly<Record<string, string>> | undefined,
  { key }: Pick<TokenPlace, 'key'>,
): Tokens {
  if (entries === undefined) return { missing: 'is not there' }
  const text = Object.hasOwn(entries, key) ? entries[key] : undefined
  if (text === undefined) return { missing: `has no entry ${key}` }
  const lines = text.split('\n').map(line => line.trim())
  const tokens = lines.filter(line => line !== '')
  if (tokens.length === 0) return { missing: `has an empty entry ${key}` }
  if (tokens.length > maxTokens) return { missing: `has more than ${maxTokens} lines in its entry ${key}` }
  if (!tokens.every(token => tokenForm.test(token))) {
    const allowed = 'up to 4096 letters, digits and signs of ASCII without blanks'
    return { missing: `has an entry ${key} that no caller can send; a token is ${allowed}` }
  }
  return { hashes: tokens.map(token => createHash('sha256').update(token).digest()) }
}
