import { createHmac } from 'node:crypto'
import type { RandomBytes } from '../domain/ids.ts'

/**
 * The signature of the Standard Webhooks specification, version 1.0: the scheme `v1`, symmetric. Its secrets are
 * `whsec_` and 24 to 64 random bytes in base64.
 */
const secretPrefix = 'whsec_'
const secretBytes = 32
const minSecretBytes = 24
const maxSecretBytes = 64
const base64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/

export function newWebhookSecret(random: RandomBytes): string {
  return `${secretPrefix}${Buffer.from(random(secretBytes)).toString('base64')}`
}

/** Whether receivers that keep to the specification can verify with it. */
export function isWebhookSecret(text: string): boolean {
  if (!text.startsWith(secretPrefix) || !base64.test(text.slice(secretPrefix.length))) return false
  const { length } = keyOf(text)
  return length >= minSecretBytes && length <= maxSecretBytes
}

/** A secret of another form, which a resource may bring along, is taken as the bytes of its text. */
function keyOf(secret: string): Buffer {
  return secret.startsWith(secretPrefix)
    ? Buffer.from(secret.slice(secretPrefix.length), 'base64')
    : Buffer.from(secret, 'utf8')
}

export interface Signed {
  /** Of the event: the same at each try. */
  readonly id: string
  /** Of this try, so that receivers can refuse what somebody has kept and sends later. */
  readonly timestampMs: number
  readonly body: string
}

/** The headers that say what it is and prove who sends it: one signature a secret. */
export function signatureHeaders(
  { id, timestampMs, body }: Signed,
  secrets: readonly string[],
): Record<string, string> {
  const timestamp = String(Math.floor(timestampMs / 1000))
  const signatures = secrets.map(secret => {
    const hmac = createHmac('sha256', keyOf(secret)).update(`${id}.${timestamp}.${body}`, 'utf8')
    return `v1,${hmac.digest('base64')}`
  })
  return {
    'webhook-id': id,
    'webhook-timestamp': timestamp,
    'webhook-signature': signatures.join(' '),
  }
}
