import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { findWebhookSecretProblem, newWebhookSecret } from '@tollway/chassis/webhooks/webhook-secret.ts'

const ofBytes = (count: number) => `whsec_${Buffer.alloc(count).toString('base64')}`

test('secrets have the form that receivers expect, and messages about invalid ones do not quote them', () => {
  const table: readonly (readonly [string, string | undefined])[] = [
    [newWebhookSecret(randomBytes), undefined],
    ['whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', undefined],
    [ofBytes(24), undefined],
    [ofBytes(64), undefined],
    [ofBytes(65), 'has 65 bytes after "whsec_"'],
    [ofBytes(23), 'has 23 bytes after "whsec_"'],
    ['whsec_', 'has 0 bytes after "whsec_"'],
    ['whsec_not base64 at all, is it?', 'has no base64 after "whsec_"'],
    ['MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', 'does not begin with "whsec_"'],
    ['', 'does not begin with "whsec_"'],
  ]
  for (const [text, fault] of table) assert.equal(findWebhookSecretProblem(text), fault, text)
})
