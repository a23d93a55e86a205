import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { findOpenOverlaps, openStreamMatchClaims } from './claim-stream-matches.ts'
import { translateAnimationStreamRoute } from './stream-route.ts'

/** Parses `NAMESPACE/NAME PREFIX SOURCE`; `-` stands for an empty field. */
function parse(text: string) {
  const [name = '', prefix = '', source = ''] = text.split(' ')
  const field = (written: string) => (written === '-' ? '' : written)
  const [namespace = ''] = name.split('/')
  const match = { sourceServiceId: field(source), streamIdPrefix: field(prefix), targetObjectId: '' }
  return { content: { match }, claimant: { name, namespace } }
}

/** Returns the outcome for each route. The routes are in the order of their age, the oldest first. */
function play(routes: readonly string[]): readonly string[] {
  const claims = openStreamMatchClaims()
  return routes.map(text => {
    const { content, claimant } = parse(text)
    const denial = claims.findDenial(content, claimant)
    if (denial === undefined) claims.grant(content, claimant)
    return denial === undefined ? 'has it' : `${denial.reason}: ${denial.owner}`
  })
}

const table: readonly [string, readonly (readonly [route: string, outcome: string])[]][] = [
  [
    'a prefix of another namespace',
    [
      ['a/1 shop-', 'has it'],
      ['b/1 shop-', 'PrefixConflict: a/1'],
      ['b/2 shop-vip-', 'PrefixConflict: a/1'],
      ['b/3 sho', 'PrefixConflict: a/1'],
      ['b/4 shop- a2f', 'PrefixConflict: a/1'],
      ['b/5 shoe-', 'has it'],
      ['b/6 news-', 'has it'],
    ],
  ],
  [
    'prefixes of one namespace may overlap',
    [
      ['a/1 shop-vip-', 'has it'],
      ['a/2 shop-', 'has it'],
      ['a/3 s', 'has it'],
      ['a/4 shop- a2f', 'has it'],
    ],
  ],
  [
    'a denied route reserves nothing',
    [
      ['a/1 shop-', 'has it'],
      ['b/1 s', 'PrefixConflict: a/1'],
      ['c/1 sea-', 'has it'],
      ['a/2 s', 'PrefixConflict: c/1'],
    ],
  ],
  [
    'the empty prefix does not overlap with others',
    [
      ['a/1 - -', 'has it'],
      ['b/1 - a2f', 'has it'],
      ['b/2 shop-', 'has it'],
      ['c/1 - other', 'has it'],
    ],
  ],
  [
    'two routes cannot have the same match',
    [
      ['a/1 - -', 'has it'],
      ['a/2 - -', 'MatchConflict: a/1'],
      ['b/1 - -', 'MatchConflict: a/1'],
      ['b/2 shop- a2f', 'has it'],
      ['b/3 shop- a2f', 'MatchConflict: b/2'],
      ['b/4 shop- -', 'has it'],
    ],
  ],
  [
    'prefixes are compared by UTF-16 units',
    [
      ['a/1 \u{1f600}x', 'has it'],
      ['b/1 \u{1f600}', 'PrefixConflict: a/1'],
      ['b/2 \u{1f601}x', 'has it'],
    ],
  ],
]

for (const [name, rows] of table) {
  test(name, () => {
    assert.deepEqual(
      play(rows.map(([route]) => route)),
      rows.map(([, outcome]) => outcome),
    )
  })
}

test('the claims of a deleted route are kept for its namespace', () => {
  const claims = openStreamMatchClaims()
  for (const text of ['a/1 shop-', 'a/2 - lamp']) {
    const { content, claimant } = parse(text)
    claims.reserve(content, claimant, '12:00')
  }
  const outcomeOf = (text: string) => {
    const { content, claimant } = parse(text)
    const { reason, message = 'has it' } = claims.findDenial(content, claimant) ?? {}
    return reason === undefined ? message : `${reason}: ${message}`
  }
  const whose = (name: string) =>
    `belonged to ${name}, which was deleted; it is kept for the namespace a until 12:00, and this resource gets it then`
  assert.equal(outcomeOf('b/1 shop-'), `ClaimKept: "shop-" ${whose('a/1')}`)
  assert.equal(outcomeOf('b/1 s'), `ClaimKept: "s" overlaps "shop-", which ${whose('a/1')}`)
  assert.equal(outcomeOf('b/1 - lamp'), `ClaimKept: this match ${whose('a/2')}`)
  for (const free of ['a/3 shop-', 'a/3 - lamp', 'b/1 - -', 'b/1 news-'])
    assert.equal(outcomeOf(free), 'has it')
})

test('the messages name the overlap and its owner', () => {
  const claims = openStreamMatchClaims()
  const old = parse('a/1 shop-')
  claims.grant(old.content, old.claimant)
  const messageFor = (text: string) => {
    const { content, claimant } = parse(text)
    return claims.findDenial(content, claimant)?.message
  }
  const whose = 'belongs to the namespace a by a/1, which is older; name another'
  assert.equal(messageFor('b/1 shop-'), `"shop-" ${whose}`)
  assert.equal(messageFor('b/1 shop-vip-'), `"shop-vip-" overlaps "shop-", which ${whose}`)
  assert.equal(messageFor('b/1 s'), `"s" overlaps "shop-", which ${whose}`)
  assert.equal(messageFor('a/2 shop-'), 'a/1, which is older, matches exactly the same; match something else')
})

test('a stream never matches routes with a prefix of two namespaces', () => {
  const word = fc.string({ unit: fc.constantFrom('a', 'b'), maxLength: 4 })
  const route = fc.record({ namespace: fc.constantFrom('x', 'y', 'z'), prefix: word })
  fc.assert(
    fc.property(fc.array(route, { maxLength: 30 }), word, (routes, stream) => {
      const claims = openStreamMatchClaims()
      const having = routes.filter(({ namespace, prefix }, index) => {
        const content = { match: { sourceServiceId: '', streamIdPrefix: prefix, targetObjectId: `${index}` } }
        const claimant = { name: `${namespace}/${index}`, namespace }
        const isFree = claims.findDenial(content, claimant) === undefined
        if (isFree) claims.grant(content, claimant)
        return isFree
      })
      const owners = having.filter(({ prefix }) => prefix !== '' && stream.startsWith(prefix))
      assert.ok(new Set(owners.map(({ namespace }) => namespace)).size <= 1)
    }),
  )
})

/**
 * Returns the overlaps of routes. `a:k-:both b:k-1` are two routes; the tokens are `both`, `push`, `pull` or
 * left out.
 */
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
