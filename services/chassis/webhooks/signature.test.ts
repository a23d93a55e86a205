import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { signatureHeaders } from './signature.ts'
import { newWebhookSecret } from './webhook-secret.ts'

/** The example in the libraries of Standard Webhooks. */
const known = {
  secret: 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw',
  id: 'msg_p5jXN8AQM9LWM0D4loKWxJek',
  timestampMs: 1_614_265_330_999,
  body: '{"test": 2432232314}',
  signature: 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=',
}

test('signatures are those of the examples of Standard Webhooks', () => {
  assert.deepEqual(signatureHeaders(known, [known.secret]), {
    'webhook-id': known.id,
    'webhook-timestamp': '1614265330',
    'webhook-signature': known.signature,
  })
})

test('each secret makes a signature, so that a receiver with any of them can verify', () => {
  const other = newWebhookSecret(randomBytes)
  const { 'webhook-signature': both = '' } = signatureHeaders(known, [other, known.secret])
  const [first, second] = both.split(' ')
  assert.equal(second, known.signature)
  assert.equal(first, signatureHeaders(known, [other])['webhook-signature'])
})
