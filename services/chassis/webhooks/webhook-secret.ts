type RandomBytes = (count: number) => Uint8Array

/**
 * A signing secret is `whsec_` and 24 to 64 random bytes in base64 (Standard Webhooks 1.0). The libraries of
 * receivers accept no other form.
 */
const prefix = 'whsec_'
const newBytes = 32
const minBytes = 24
const maxBytes = 64
const base64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/

/** The form in words, for messages about an invalid secret. */
export const webhookSecretForm = `"${prefix}" and ${minBytes} to ${maxBytes} bytes in base64`

export function newWebhookSecret(random: RandomBytes): string {
  return `${prefix}${Buffer.from(random(newBytes)).toString('base64')}`
}

/**
 * Returns why receivers could not verify with this secret; undefined for a valid one. Quotes no character of
 * the text, which may be a password.
 */
export function findWebhookSecretProblem(text: string): string | undefined {
  if (!text.startsWith(prefix)) return `does not begin with "${prefix}"`
  const encoded = text.slice(prefix.length)
  if (!base64.test(encoded)) return `has no base64 after "${prefix}"`
  const { length } = Buffer.from(encoded, 'base64')
  return length >= minBytes && length <= maxBytes ? undefined : `has ${length} bytes after "${prefix}"`
}

/** A text without the prefix, which resources of earlier versions could have, is used as UTF-8. */
export function webhookSecretBytes(secret: string): Uint8Array {
  return secret.startsWith(prefix)
    ? Buffer.from(secret.slice(prefix.length), 'base64')
    : Buffer.from(secret, 'utf8')
}
