import assert from 'node:assert/strict'
import { test } from 'node:test'
import { findOpenOverlaps } from './find-open-overlaps.ts'
import { translateAnimationStreamRoute } from './translate-animation-stream-route.ts'

/** `a:k-:both b:k-1` are two routes; tokens are `both`, `push`, `pull` or none. */
function overlapsOf(text: string): Record<string, string> {
  const fields = { both: 'tokenSecretRef', push: 'pushTokenSecretRef', pull: 'pullTokenSecretRef' } as const
  const routes = text.split(' ').map(words => {
    const [name = '', streamIdPrefix, tokens] = words.split(':')
    const refs = tokens === undefined ? {} : { [fields[tokens as keyof typeof fields]]: { name: 'secret' } }
    const spec = { match: { streamIdPrefix, sourceServiceId: name }, ...refs }
    const metadata = { name, namespace: 'n' }
    const envelope = { apiVersion: 'tollway.dev/v1alpha1', kind: 'AnimationStreamRoute', metadata }
    const translation = translateAnimationStreamRoute(`n/${name}`, { ...envelope, spec })
    assert.ok('value' in translation)
    return translation.value
  })
  const found = findOpenOverlaps(routes)
  const form = /^overlapping prefixes: (.*); streams that both prefixes match need the token$/
  return Object.fromEntries(
    Array.from(found, ([name, { message }]) => [name, form.exec(message)?.[1] ?? message]),
  )
}

const bothRights = (name: string, other: string, need: string) =>
  `${name} needs ${need} to push, unlike ${other}; ${name} needs ${need} to pull, unlike ${other}`

test('two routes with overlapping prefixes, of which one has no token, are both reported', () => {
  const pair = {
    'n/a': bothRights('n/a', 'n/b', 'a token'),
    'n/b': bothRights('n/b', 'n/a', 'no token'),
  }
  assert.deepEqual(overlapsOf('a:k-:both b:k-'), pair)
  assert.deepEqual(overlapsOf('a:k-:both b:k-1-'), pair)
  assert.deepEqual(overlapsOf('b:k- a:k-1-:both'), pair)
})

test('each right is compared on its own', () => {
  assert.deepEqual(overlapsOf('a:k-:both b:k-:push'), {
    'n/a': 'n/a needs a token to pull, unlike n/b',
    'n/b': 'n/b needs no token to pull, unlike n/a',
  })
})

test('routes that all need tokens, or none, or do not overlap are not reported', () => {
  for (const text of [
    'a:k-:both b:k-:both',
    'a:k- b:k-1',
    'a:k-1:both b:k-2',
    'a:k-:both b:',
    'a::both b:k-',
  ]) {
    assert.deepEqual(overlapsOf(text), {}, text)
  }
})

test('a message names a few routes, however many overlap', () => {
  const many = Array.from({ length: 500 }, (_, index) => `r${index}:k-${index}`).join(' ')
  const found = overlapsOf(`a:k-:both ${many}`)
  assert.equal(Object.keys(found).length, 501)
  assert.match(found['n/a'] ?? '', /^n\/a needs a token to push, unlike n\/r0, n\/r1, n\/r2 and others;/)
})
