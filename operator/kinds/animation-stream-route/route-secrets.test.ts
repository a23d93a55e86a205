import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { test } from 'node:test'
import { parseManifests } from '../../environments/host/folder/manifests.ts'
import { folderSecrets } from '../../environments/host/secrets.ts'
import { hashTokens, type Tokens } from './route-secrets.ts'

const hashOf = (token: string) => createHash('sha256').update(token).digest()

/** Returns the tokens of this test that have these hashes, or why there are none. */
function show(tokens: Tokens): string {
  if ('unknown' in tokens) return 'unknown'
  if ('missing' in tokens) return tokens.missing
  if (!('hashes' in tokens)) return 'forbidden'
  const known = ['abc', 'def', 'plain', 'secret']
  return tokens.hashes
    .map(hash => known.find(token => Buffer.from(hash).equals(hashOf(token))) ?? 'another')
    .join(' ')
}

const entries: readonly [Readonly<Record<string, string>> | undefined, string][] = [
  [{ token: 'abc' }, 'abc'],
  [{ token: ' abc\r\n' }, 'abc'],
  [{ token: 'abc\n\ndef\n' }, 'abc def'],
  [undefined, 'does not exist'],
  [{}, 'has no entry token'],
  [{ other: 'abc' }, 'has no entry token'],
  [{ token: ' \n' }, 'has an empty entry token'],
  [{ token: 'abc\n'.repeat(17) }, 'has more than 16 lines in its entry token'],
  [
    { token: 'a b' },
    'has an entry token that no caller can send; a token is up to 4096 letters, digits and signs of ASCII ' +
      'without blanks',
  ],
]

for (const [given, expected] of entries) {
  test(`${JSON.stringify(given)}: ${expected.slice(0, 40)}`, () => {
    assert.equal(show(hashTokens(given, { key: 'token' })), expected)
  })
}

test('names of built-in properties are not entries of a Secret', () => {
  assert.deepEqual(hashTokens({}, { key: 'constructor' }), { missing: 'has no entry constructor' })
})

test('the Secrets of a folder are read as an API server would return them', () => {
  const manifests = `
apiVersion: v1
kind: Secret
metadata: {name: plain, namespace: shop}
stringData: {token: plain}
---
apiVersion: v1
kind: Secret
metadata: {name: encoded, namespace: shop}
data: {token: ${Buffer.from('secret').toString('base64')}, both: ${Buffer.from('abc').toString('base64')}}
stringData: {both: def}
---
apiVersion: v1
kind: Secret
metadata: {name: broken, namespace: shop}
data: {token: "not base64!"}
---
apiVersion: v1
kind: Secret
metadata: {name: empty, namespace: shop}
`
  const read = parseManifests(manifests, 'secrets.yaml')
  assert.ok('manifests' in read)
  assert.deepEqual(read.problems, [])
  const resources = read.manifests.map(manifest => ({ ...manifest, generation: 1 }))
  const secrets = folderSecrets({ list: () => resources, onChange: () => {} })
  const at = (secret: string, key = 'token', namespace = 'shop') => secrets.tokens({ namespace, secret, key })
  assert.equal(show(at('plain')), 'plain')
  assert.equal(show(at('encoded')), 'secret')
  assert.equal(show(at('encoded', 'both')), 'def')
  assert.equal(show(at('broken')), 'has data that is not base64, or entries that are not strings')
  assert.equal(show(at('empty')), 'has no entry token')
  assert.equal(show(at('plain', 'token', 'other')), 'does not exist')
  assert.equal(at('plain'), at('plain'), 'the same object until a change')
})
