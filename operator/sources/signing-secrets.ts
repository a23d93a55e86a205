import { webhookSecretFault, webhookSecretForm } from '@tollway/chassis/webhooks/webhook-secret.ts'
import type { NoEntry, SecretPlace } from './route-secrets.ts'

/** The state of the signing secrets in one place. Unlike tokens they are needed as texts. */
export type SigningSecrets =
  /** `forbidden`: the Secret may not be read any more, so that these may be old. */
  { readonly secrets: readonly string[]; readonly forbidden?: string } | NoEntry

/** The current one, and the one before it during a rotation. */
const maxSecrets = 2

/** Reads the secrets of a Secret's entry, a line each. No message quotes a character of them. */
export function readSigningSecrets(
  entries: Readonly<Record<string, string>> | undefined,
  { key }: Pick<SecretPlace, 'key'>,
): SigningSecrets {
  if (entries === undefined) return { missing: 'is not there' }
  const text = Object.hasOwn(entries, key) ? entries[key] : undefined
  if (text === undefined) return { missing: `has no entry ${key}` }
  const secrets = text
    .split('\n')
    .map(line => line.trim())
    .filter(line => line !== '')
  if (secrets.length === 0) return { missing: `has an empty entry ${key}` }
  if (secrets.length > maxSecrets) return { missing: `has more than ${maxSecrets} lines in its entry ${key}` }
  for (const [index, secret] of secrets.entries()) {
    const fault = webhookSecretFault(secret)
    if (fault === undefined) continue
    return {
      missing: `has an entry ${key} whose line ${index + 1} ${fault}; ${webhookSecretForm} is allowed`,
    }
  }
  return { secrets }
}
