import { webhookSecretFault, webhookSecretForm } from '@tollway/chassis/webhooks/webhook-secret.ts'
import type { NoEntry, SecretPlace } from './route-secrets.ts'
import { readSecretLines } from './secret-lines.ts'

/** The signing secrets in one place. Unlike tokens, they are needed as text. */
export type SigningSecrets =
  /** `forbidden`: the operator may no longer read the Secret, so these values may be outdated. */
  { readonly secrets: readonly string[]; readonly forbidden?: string } | NoEntry

/** The signing secret, and its predecessor during a rotation. */
const maxSecrets = 2

/** Reads the secrets of an entry, one in each line. No message quotes a character of them. */
export function readSigningSecrets(
  entries: Readonly<Record<string, string>> | undefined,
  { key }: Pick<SecretPlace, 'key'>,
): SigningSecrets {
  const secrets = readSecretLines(entries, key, maxSecrets)
  if ('missing' in secrets) return secrets
  for (const [index, secret] of secrets.entries()) {
    const fault = webhookSecretFault(secret)
    if (fault === undefined) continue
    return {
      missing: `has an entry ${key} whose line ${index + 1} ${fault}; ${webhookSecretForm} is allowed`,
    }
  }
  return { secrets }
}
