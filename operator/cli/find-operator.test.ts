import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { temporaryFolder } from '../../test/support/temporary-folder.ts'
import { findOperator } from './find-operator.ts'

const folder = temporaryFolder('find-operator')
const tokenFile = join(folder, 'token')
writeFileSync(tokenFile, 'canary-7f3a\n')
const twoTokens = join(folder, 'two-tokens')
writeFileSync(twoTokens, 'canary-1\ncanary-2\n')
const named = { operator: 'http://localhost:8000', 'token-file': tokenFile, 'state-dir': folder }

test('the token file is used for loopback addresses and for https', async () => {
  assert.equal((await findOperator(named)).token, 'canary-7f3a')
  assert.equal((await findOperator({ ...named, operator: 'https://tollway.example' })).token, 'canary-7f3a')
})

for (const [text, values, message] of [
  ['without TLS', { ...named, operator: 'http://10.0.0.7:8000' }, /tokens are sent only with TLS/],
  ['in the URL', { ...named, operator: 'http://user:canary@localhost' }, /must be http:\/\/HOST:PORT/],
  ['among others', { ...named, 'token-file': twoTokens }, /must contain exactly one token/],
  ['with a bad file', { ...named, 'token-file': folder }, /--token-file/],
  ['without an operator', { ...named, operator: undefined }, /--token-file requires --operator/],
  [
    'without any',
    { ...named, operator: undefined, 'token-file': undefined },
    /no operator runs with the state/,
  ],
] as const)
  test(`a token ${text} is rejected without showing it`, async () => {
    await assert.rejects(findOperator(values), (error: Error) => {
      assert.match(error.message, message)
      assert.doesNotMatch(error.message, /canary/)
      return true
    })
  })
