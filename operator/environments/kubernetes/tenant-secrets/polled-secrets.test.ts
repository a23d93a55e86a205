import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { type TestContext, test } from 'node:test'
import { systemClock } from '@tollway/chassis/clock.ts'
import { waitFor } from '../../../../test/support/wait-for.ts'
import { SecretForbiddenError } from '../../../kinds/source.ts'
import { PolledSecrets } from './polled-secrets.ts'
import { createReadRateLimiter } from './read-rate-limiter.ts'

const reference = (secret: string, key = 'token') => ({ namespace: 'shop', secret, key })

/** Starts `PolledSecrets` on an API server whose Secrets the test writes. */
function start(
  t: TestContext,
  timing: ConstructorParameters<typeof PolledSecrets>[0]['timing'] = {},
  readsPerSecond = 1000,
) {
  const stored = new Map<string, Readonly<Record<string, string>>>()
  const failing = new Map<string, Error>()
  const reads: string[] = []
  const errors: string[] = []
  let changes = 0
  const secrets = new PolledSecrets({
    async read(namespace, name) {
      reads.push(`${namespace}/${name}`)
      const error = failing.get(name)
      if (error !== undefined) throw error
      return stored.get(name)
    },
    rateLimiter: createReadRateLimiter({ readsPerSecond, clock: systemClock, random: Math.random }),
    random: Math.random,
    onError: (secret, { message }) => errors.push(`${secret}: ${message}`),
    timing: { pollMs: 20, retryMs: 5, ...timing },
  })
  secrets.onChange(() => {
    changes += 1
  })
  t.after(() => secrets.stop())
  /** Returns `2 tokens`, `2 tokens, ask`, or why there are none. */
  function tells(secret: string, key?: string): string {
    const tokens = secrets.tokens(reference(secret, key))
    if ('unknown' in tokens) return 'unknown'
    if ('missing' in tokens) return tokens.missing
    const old = 'forbidden' in tokens ? `, ${tokens.forbidden}` : ''
    return 'hashes' in tokens ? `${tokens.hashes.length} tokens${old}` : `none${old}`
  }
  return { secrets, stored, failing, reads, errors, tells, changes: () => changes }
}

test('a Secret is read at once when a resource names it, and then at intervals', async t => {
  const { secrets, stored, tells } = start(t)
  stored.set('a', { token: 'one', more: 'x\ny' })
  assert.equal(tells('a'), 'unknown')
  await secrets.follow([reference('a'), reference('a', 'more'), reference('b')])
  assert.deepEqual([tells('a'), tells('a', 'more'), tells('b')], ['1 tokens', '2 tokens', 'does not exist'])
  const { hashes } = secrets.tokens(reference('a')) as { hashes: readonly Uint8Array[] }
  assert.deepEqual(hashes, [createHash('sha256').update('one').digest()])
  stored.set('b', { token: 'two' })
  stored.delete('a')
  await waitFor('the next look', async () => tells('b') === '1 tokens' && tells('a') === 'does not exist')
})

test('nothing is reported without a change', async t => {
  const { secrets, stored, reads, changes } = start(t)
  stored.set('a', { token: 'one' })
  await secrets.follow([reference('a')])
  const [before, told] = [secrets.tokens(reference('a')), changes()]
  await waitFor('several looks', async () => reads.length > 5)
  assert.equal(secrets.tokens(reference('a')), before)
  assert.equal(changes(), told)
})

test('a Secret that no resource names any more is not read', async t => {
  const { secrets, reads, tells } = start(t)
  await secrets.follow([reference('a'), reference('b')])
  await secrets.follow([reference('b')])
  assert.equal(tells('a'), 'unknown')
  reads.length = 0
  await waitFor('several looks', async () => reads.length > 3)
  assert.deepEqual(new Set(reads), new Set(['shop/b']))
})

test('while a Secret cannot be read its tokens stay in force, and each reason is reported once', async t => {
  const { secrets, stored, failing, errors, reads, tells } = start(t)
  stored.set('a', { token: 'one' })
  await secrets.follow([reference('a')])
  for (const [error, expected] of [
    [new Error('gone'), '1 tokens'],
    [new SecretForbiddenError('no', 'ask'), '1 tokens, ask'],
  ] as const) {
    failing.set('a', error)
    const before = reads.length
    await waitFor('several looks', async () => reads.length > before + 3)
    assert.equal(tells('a'), expected)
  }
  assert.deepEqual(errors, ['shop/a: gone', 'shop/a: no'])
  failing.clear()
  await waitFor('the right to be there again', async () => tells('a') === '1 tokens')
})

test('Secrets of many routes are read once each at first, and then at the rate limit of reads', async t => {
  const { secrets, reads } = start(t, { pollMs: 1 }, 50)
  const references = Array.from({ length: 400 }, (_, index) => reference(`s${index % 100}`, `k${index}`))
  // A process that was stopped for a moment catches up on reads, so the rate is measured from the first
  // reads.
  const beginMs = performance.now()
  await secrets.follow(references)
  assert.equal(reads.length, 100)
  await waitFor('40 reads more', async () => reads.length >= 140)
  const seconds = (performance.now() - beginMs) / 1000
  assert.ok((reads.length - 100) / seconds <= 60, `${reads.length - 100} reads in ${seconds} s`)
  assert.equal(new Set(reads.slice(100, 140)).size, 40)
})

test('a Secret that is named while it is read is not read twice', async t => {
  const { secrets, reads } = start(t, { pollMs: 600_000 })
  await Promise.all([1, 2, 3].map(() => secrets.follow([reference('a'), reference('b')])))
  assert.deepEqual(reads.sort(), ['shop/a', 'shop/b'])
})

test('a Secret that was never read is retried for a while, and does not affect the others', async t => {
  const { secrets, stored, failing, tells } = start(t, { firstReadsMs: 40 })
  stored.set('a', { token: 'one' })
  stored.set('b', { token: 'two' })
  failing.set('b', new Error('gone'))
  await secrets.follow([reference('a'), reference('b')])
  assert.deepEqual([tells('a'), tells('b')], ['1 tokens', 'unknown'])
  stored.set('a', { token: 'one\ntwo' })
  await waitFor('a look at the other', async () => tells('a') === '2 tokens')
  failing.clear()
  await waitFor('it to be read', async () => tells('b') === '1 tokens')
})

test('a Secret that may not be read is not waited for, and is read after the right is granted', async t => {
  const { secrets, stored, failing, tells } = start(t, { firstReadsMs: 600_000 })
  stored.set('a', { token: 'one' })
  failing.set('a', new SecretForbiddenError('no', 'ask'))
  await secrets.follow([reference('a')])
  assert.equal(tells('a'), 'none, ask')
  failing.clear()
  await waitFor('it to be read', async () => tells('a') === '1 tokens')
})

test('a stop ends the wait for Secrets', async t => {
  const { secrets, failing } = start(t, { firstReadsMs: 600_000 })
  failing.set('a', new Error('gone'))
  const following = secrets.follow([reference('a')])
  await secrets.stop()
  await following
})

test('tokens and signing secrets of one Secret cost one read, and follow its changes', async t => {
  const { secrets, stored, reads, failing } = start(t)
  const [first, second] = [1, 2].map(byte => `whsec_${Buffer.alloc(24, byte).toString('base64')}`)
  stored.set('a', { token: 'one', secret: `${first}` })
  assert.deepEqual(secrets.signing(reference('a', 'secret')), { unknown: true })
  await secrets.follow([reference('a')], [reference('a', 'secret'), reference('a', 'token')])
  assert.deepEqual(reads, ['shop/a'])
  assert.deepEqual(secrets.signing(reference('a', 'secret')), { secrets: [first] })
  assert.ok('hashes' in secrets.tokens(reference('a')), 'the same entry may be both')
  assert.ok('missing' in secrets.signing(reference('a', 'token')))
  stored.set('a', { token: 'one', secret: `${second}\n${first}` })
  const current = () => JSON.stringify(secrets.signing(reference('a', 'secret')))
  await waitFor('the rotation', () => current() === JSON.stringify({ secrets: [second, first] }))
  failing.set('a', new SecretForbiddenError('no right', 'ask'))
  const kept = JSON.stringify({ secrets: [second, first], forbidden: 'ask' })
  await waitFor('the missing right', () => current() === kept)
})
