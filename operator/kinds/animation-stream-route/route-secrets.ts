import { createHash } from 'node:crypto'
import { findWebhookSecretProblem, webhookSecretForm } from '@tollway/chassis/webhooks/webhook-secret.ts'

export interface SecretReference {
  readonly namespace: string
  readonly secret: string
  readonly key: string
}

/** Why the values of an entry are not known. */
export type NoEntry =
  /**
   * The Secret or entry is missing or unusable. The text is the end of a sentence that starts with the
   * Secret's name.
   */
  | { readonly missing: string }
  /** The operator may not read the Secret. The text says how to grant the right. */
  | { readonly forbidden: string }
  /** The entry has not been read yet. */
  | { readonly unknown: true }

/** Reads the Secrets that routes name. */
export interface RouteSecrets {
  /**
   * Reads these entries from now on, and stops reading all others. Resolves when each entry has been read
   * once, or after a time limit.
   */
  follow(tokens: readonly SecretReference[], signing?: readonly SecretReference[]): Promise<void>
  /** Returns the tokens of a followed entry. The result is the same object until a token changes. */
  tokens(reference: SecretReference): Tokens
  /**
   * Returns the signing secrets of a followed entry. The result is the same object until a secret changes.
   */
  signing(reference: SecretReference): SigningSecrets
  /** Calls the listener after each change of a result of `tokens` or `signing`. */
  onChange(listener: () => void): void
}

/** The SHA-256 hashes of the tokens in one entry. Only the reader of Secrets has the tokens themselves. */
export type Tokens =
  /** `forbidden`: the operator may no longer read the Secret, so these values may be outdated. */
  { readonly hashes: readonly Uint8Array[]; readonly forbidden?: string } | NoEntry

/** The highest number of tokens in an entry. A rotation needs two. */
const maxTokens = 16
/** The characters of a bearer token in a header: visible ASCII. */
const tokenForm = /^[\x21-\x7e]{1,4096}$/

/**
 * Returns the hashes of the tokens of an entry, which has one token in each line. Blanks around a token are
 * ignored.
 */
export function hashTokens(
  entries: Readonly<Record<string, string>> | undefined,
  { key }: Pick<SecretReference, 'key'>,
): Tokens {
  const tokens = readSecretLines(entries, key, maxTokens)
  if ('missing' in tokens) return tokens
  if (!tokens.every(token => tokenForm.test(token))) {
    const allowed = 'up to 4096 letters, digits and signs of ASCII without blanks'
    return { missing: `has an entry ${key} that no caller can send; a token is ${allowed}` }
  }
  return { hashes: tokens.map(token => createHash('sha256').update(token).digest()) }
}

/** The signing secrets in one entry. They are needed as text, unlike tokens. */
export type SigningSecrets =
  /** `forbidden`: the operator may no longer read the Secret, so these values may be outdated. */
  { readonly secrets: readonly string[]; readonly forbidden?: string } | NoEntry

/** An entry has a signing secret and, during a rotation, its predecessor. */
const maxSecrets = 2

/**
 * Returns the signing secrets of an entry, which has one in each line. No message quotes a character of them.
 */
export function readSigningSecrets(
  entries: Readonly<Record<string, string>> | undefined,
  { key }: Pick<SecretReference, 'key'>,
): SigningSecrets {
  const secrets = readSecretLines(entries, key, maxSecrets)
  if ('missing' in secrets) return secrets
  for (const [index, secret] of secrets.entries()) {
    const fault = findWebhookSecretProblem(secret)
    if (fault === undefined) continue
    return {
      missing: `has an entry ${key} whose line ${index + 1} ${fault}; ${webhookSecretForm} is allowed`,
    }
  }
  return { secrets }
}

export const noSecret = { missing: 'does not exist' } as const satisfies NoEntry

/**
 * Returns the lines of a Secret's entry, trimmed and without blank lines, or why there are none. The reason
 * never quotes a line.
 */
function readSecretLines(
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
