import { createHmac } from 'node:crypto'
import { webhookSecretBytes } from './webhook-secret.ts'

interface Signed {
  /** The id of the event, the same at each try. */
  readonly id: string
  /** The time of this try, so that receivers can reject a replayed request. */
  readonly timestampMs: number
  readonly body: string
}

/**
 * Returns the headers that identify the message and prove its sender: one signature for each secret, of the
 * scheme `v1` of the Standard Webhooks specification, version 1.0.
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
