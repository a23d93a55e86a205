import { webhookSecretFault, webhookSecretForm } from '@tollway/chassis/webhooks/webhook-secret.ts'
import type { NoEntry, SecretPlace } from './route-secrets.ts'
import { readSecretLines } from './secret-lines.ts'

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
