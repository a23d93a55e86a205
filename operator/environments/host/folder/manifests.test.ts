import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { dump } from 'js-yaml'
import { cpuMsOf } from '../../../../test/support/cpu-time.ts'
import { parseManifests } from './manifests.ts'

const good =
  'apiVersion: tollway.dev/v1alpha1\nkind: RateLimitConfig\nmetadata: {name: one, namespace: shop}\n'

function read(text: string) {
  const result = parseManifests(text, 'a.yaml')
  if ('error' in result) return [`error ${result.error.message}`]
  return [
    ...result.manifests.map(({ origin, namespace, name }) => `${origin} ${namespace}/${name}`),
    ...result.problems.map(({ origin, message }) => `${origin} ${message}`),
    ...result.ignored.map(name => `ignored ${name}`),
  ]
}

const inline = good.trim().replaceAll('\n', ', ')

const cases: readonly (readonly [text: string, expected: readonly string[]])[] = [
  ['', []],
  ['# nothing but a comment\n---\n', []],
  [good, ['a.yaml shop/one']],
  [`---\n# only a comment\n---\n${good}---\n`, ['a.yaml shop/one']],
  [good.replace(', namespace: shop', ''), ['a.yaml default/one']],
  [`${good}---\n${good}`, ['a.yaml#1 shop/one', 'a.yaml#2 shop/one']],
  [
    `${good}---\n- 1`,
    ['a.yaml#1 shop/one', 'a.yaml#2 line 5: not a mapping of apiVersion, kind, metadata and spec'],
  ],
  ['kind: RateLimitConfig', ['a.yaml line 1: apiVersion: found nothing, expected a group/version']],
  ['apiVersion: tollway.dev/v1\nkind: 3', ['a.yaml line 1: kind: found 3, expected the name of a kind']],
  ['{apiVersion: v1, kind: Pod}', ['ignored v1 Pod']],
  ['{admin: {}, static_resources: {listeners: []}}', ['ignored an Envoy configuration']],
  [
    good.replace('one', '"Checkout/1"'),
    [
      'a.yaml line 1: metadata.name: found "Checkout/1", expected ' +
        'a name of at most 253 lower case letters, digits, - and . (RFC 1123 subdomain)',
    ],
  ],
  [
    good.replace('shop', '8080'),
    [
      'a.yaml line 1: metadata.namespace: found 8080, expected ' +
        'a name of at most 63 lower case letters, digits and - (RFC 1123 label)',
    ],
  ],
  [
    `{apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: Pod}, {${inline}}]}`,
    ['a.yaml#1.items[1] shop/one', 'ignored v1 Pod'],
  ],
  ['{apiVersion: v1, kind: List, items: 3}', ['a.yaml line 1: items: a List needs a list']],
  ['a: [1', ['error line 1, column 6: unexpected end of the stream within a flow collection']],
  [`${good}---\na: 1\na: 2\n`, ['a.yaml#1 shop/one', 'a.yaml#2 line 6, column 1: duplicated mapping key']],
  [`${good}spec: !ruby 1\n`, ['a.yaml line 4, column 7: unknown scalar tag !<!ruby>']],
  ['a: &a [*a]', ['a.yaml line 1: an alias inside its own anchor is not allowed']],
]
for (const [text, expected] of cases) {
  test(`manifests: ${JSON.stringify(text.length > 60 ? `${text.slice(0, 60)}…` : text)}`, () => {
    assert.deepEqual(read(text), expected)
  })
}

test('only true and false are booleans, dates are texts, and merge keys merge', () => {
  const spec =
    'spec: {a: yes, b: true, c: 2026-01-01, d: 010, e: &e {k: 1}, f: {<<: *e, l: 2}, __proto__: 3}\n'
  const result = parseManifests(good + spec, 'a.yaml')
  assert.ok('manifests' in result)
  assert.equal(
    JSON.stringify(result.manifests[0]?.spec),
    '{"a":"yes","b":true,"c":"2026-01-01","d":10,"e":{"k":1},"f":{"k":1,"l":2},"__proto__":3}',
  )
})

test('a YAML bomb is rejected immediately, and another file is not', () => {
  const nested = (levels: number, width: number) => {
    const level = (index: number) =>
      `a${index}: &a${index} [${Array(width)
        .fill(`*a${index - 1}`)
        .join(', ')}]`
    return `a0: &a0 [laugh]\n${Array.from({ length: levels }, (_, index) => level(index + 1)).join('\n')}\n`
  }
  const keys = Array.from({ length: 500 }, (_, key) => `k${key}: 1`).join(', ')
  const bombs: Readonly<Record<string, readonly [string, RegExp]>> = {
    'too many aliases': [nested(20, 9), /aliases exceeded maxAliases \(100\)/],
    'few aliases of much text': [nested(10, 9), /with its aliases written out .* over 4000000 characters/],
    'a chain of aliases': [nested(90, 1), /nested deeper than the 64 levels/],
    'merges of merges': [
      `a: &a {${keys}}\nb: [{<<: *a}, {<<: *a}, {<<: *a}]`,
      /merge keys exceeded maxTotalMergeKeys/,
    ],
  }
  for (const [name, [bomb, rejection]] of Object.entries(bombs)) {
    const tookMs = cpuMsOf(() => {
      const [neighbour, rejected] = read(`${good}---\n${bomb}`)
      assert.equal(neighbour, 'a.yaml#1 shop/one', name)
      assert.match(rejected ?? '', rejection)
    })
    assert.ok(tookMs < 500, `${name}: ${tookMs} ms`)
  }
  assert.match(read('['.repeat(100_000))[0] ?? '', /^error line 1, column 64: nesting exceeded maxDepth/)
  assert.match(
    read('---\n- 1\n'.repeat(200))[0] ?? '',
    /^error more than 100 bad documents; the first: line 2/,
  )
  assert.match(read('---\n'.repeat(10_002))[0] ?? '', /at most 10000 are allowed in a file/)
})

test('any text gets a result, and a written manifest is read unchanged', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), fc.nat(), (noise, place) => {
      const text = `${good}---\n${good}`
      const at = place % text.length
      parseManifests(text.slice(0, at) + noise + text.slice(at), 'a.yaml')
      parseManifests(noise, 'a.yaml')
    }),
  )
  fc.assert(
    fc.property(fc.jsonValue({ maxDepth: 5 }), spec => {
      const plain: unknown = JSON.parse(JSON.stringify(spec))
      const metadata = { name: 'one' }
      const text = dump({
        apiVersion: 'tollway.dev/v1alpha1',
        kind: 'RateLimitConfig',
        metadata,
        spec: plain,
      })
      const result = parseManifests(text, 'a.yaml')
      assert.ok('manifests' in result)
      assert.deepEqual(result.manifests[0]?.spec, plain)
    }),
  )
})
