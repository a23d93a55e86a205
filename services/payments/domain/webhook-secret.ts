import type { RandomBytes } from './ids.ts'

/**
 * What webhooks are signed with: `whsec_` and 24 to 64 random bytes in base64 (Standard Webhooks 1.0, symmetric
 * secrets). The libraries of receivers take no other.
 */
const prefix = 'whsec_'
const newBytes = 32
const minBytes = 24
const maxBytes = 64
const base64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/

/** For messages about a secret that is none. */
export const webhookSecretForm = `"${prefix}" and ${minBytes} to ${maxBytes} bytes in base64`

export function newWebhookSecret(random: RandomBytes): string {
  return `${prefix}${Buffer.from(random(newBytes)).toString('base64')}`
}

/**
 * What keeps receivers from verifying with it, without a character of it: it may be somebody's password.
 * Undefined for a secret that is right.
 */
export function webhookSecretFault(text: string): string | undefined {
  if (!text.startsWith(prefix)) return `does not begin with "${prefix}"`
  const encoded = text.slice(prefix.length)
  if (!base64.test(encoded)) return `has no base64 after "${prefix}"`
  const { length } = Buffer.from(encoded, 'base64')
  return length >= minBytes && length <= maxBytes ? undefined : `has ${length} bytes after "${prefix}"`
}

/** Its bytes; of a secret of another form, which resources could once bring along, those of its text. */
export function webhookSecretBytes(secret: string): Uint8Array {
  return secret.startsWith(prefix)
    ? Buffer.from(secret.slice(prefix.length), 'base64')
    : Buffer.from(secret, 'utf8')
}
