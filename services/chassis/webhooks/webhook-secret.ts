/** Returns `count` random bytes. */
type RandomBytes = (count: number) => Uint8Array

/**
 * The form of a webhook's signing secret: `whsec_` and 24 to 64 random bytes in base64 (Standard Webhooks
 * 1.0, symmetric secrets). The libraries of receivers accept no other form.
 */
const prefix = 'whsec_'
const newBytes = 32
const minBytes = 24
const maxBytes = 64
const base64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/

/** The form of a secret in words, for messages about an invalid one. */
export const webhookSecretForm = `"${prefix}" and ${minBytes} to ${maxBytes} bytes in base64`

export function newWebhookSecret(random: RandomBytes): string {
  return `${prefix}${Buffer.from(random(newBytes)).toString('base64')}`
}

/**
 * Returns why receivers could not verify a signature with this secret; undefined for a valid secret. The
 * reason quotes no character of the text, which may be a password.
 */
export function findWebhookSecretProblem(text: string): string | undefined {
  if (!text.startsWith(prefix)) return `does not begin with "${prefix}"`
  const encoded = text.slice(prefix.length)
  if (!base64.test(encoded)) return `has no base64 after "${prefix}"`
  const { length } = Buffer.from(encoded, 'base64')
  return length >= minBytes && length <= maxBytes ? undefined : `has ${length} bytes after "${prefix}"`
}

/**
 * Returns the bytes with which webhooks are signed: the decoded base64 of a secret. A text without the
 * prefix, which resources of earlier versions could have, is used as UTF-8.
 */
export function webhookSecretBytes(secret: string): Uint8Array {
  return secret.startsWith(prefix)
    ? Buffer.from(secret.slice(prefix.length), 'base64')
    : Buffer.from(secret, 'utf8')
}
