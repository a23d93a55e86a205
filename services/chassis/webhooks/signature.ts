import { createHmac } from 'node:crypto'
import { webhookSecretBytes } from './webhook-secret.ts'

interface Signed {
  /** The id of the webhook, the same for each try. */
  readonly id: string
  /**
   * The time of this try in milliseconds since the epoch. Receivers reject an old one, so that nobody can
   * send a recorded request again.
   */
  readonly timestampMs: number
  readonly body: string
}

/**
 * Returns the headers that Standard Webhooks 1.0 defines: one signature of the scheme `v1` for each secret.
 */
export function signatureHeaders(
  { id, timestampMs, body }: Signed,
  secrets: readonly string[],
): Record<string, string> {
  const timestamp = String(Math.floor(timestampMs / 1000))
  const signatures = secrets.map(secret => {
    const hmac = createHmac('sha256', webhookSecretBytes(secret)).update(`${id}.${timestamp}.${body}`, 'utf8')
    return `v1,${hmac.digest('base64')}`
  })
  return {
    'webhook-id': id,
    'webhook-timestamp': timestamp,
    'webhook-signature': signatures.join(' '),
  }
}
