import assert from 'node:assert/strict'
import { test } from 'node:test'
import { formatProblem } from '../problems.ts'
import { parseConfig, splitLines } from '../testing/rules-of-yaml.ts'
import { parseYaml } from './parse-yaml.ts'

function problemsOf(yaml: string): string[] {
  const parsed = parseYaml('bad.yaml', yaml)
  return 'problems' in parsed ? parsed.problems.map(formatProblem) : []
}

function warningsOf(yaml: string): string[] {
  const parsed = parseYaml('odd.yaml', yaml)
  return 'warnings' in parsed ? parsed.warnings.map(formatProblem) : ['rejected']
}

const legal =
  'domain, descriptors, key, value, rate_limit, shadow_mode, detailed_metric, quota_mode, value_to_metric, ' +
  'share_threshold, metadata, unit, requests_per_unit, unlimited, name, replaces'

test('all fields of a rule are parsed', () => {
  const config = parseConfig(`
domain: shop
descriptors:
  - key: user
    value: alice
    shadow_mode: true
    quota_mode: TRUE
    detailed_metric: false
    value_to_metric: true
    share_threshold: true
    metadata: {owner: team, list: [1, 2.5, null, {x: true}], __proto__: {y: "1"}}
    rate_limit:
      unit: Minute
      requests_per_unit: 3
      unlimited: false
      name: pay
      replaces: [{name: a}, {name: b}]
    descriptors:
      - key: path
`)
  const modes = { shadowMode: false, detailedMetric: false, quotaMode: false, valueToMetric: false }
  assert.deepEqual(config, {
    name: 'test.yaml',
    domain: 'shop',
    descriptors: [
      {
        key: 'user',
        value: 'alice',
        shadowMode: true,
        quotaMode: true,
        detailedMetric: false,
        valueToMetric: true,
        shareThreshold: true,
        metadata: Object.fromEntries([
          ['owner', 'team'],
          ['list', [1, 2.5, null, { x: true }]],
          ['__proto__', { y: '1' }],
        ]),
        rateLimit: {
          unit: 'Minute',
          requestsPerUnit: 3,
          unlimited: false,
          name: 'pay',
          replaces: ['a', 'b'],
        },
        descriptors: [{ key: 'path', value: '', ...modes, shareThreshold: false, descriptors: [] }],
      },
    ],
  })
})

const descriptor = (fields: string) => `{domain: d, descriptors: [{key: k, ${fields}}]}`
const rateLimit = (fields: string) => descriptor(`rate_limit: {unit: day, ${fields}}`)
const list = 'descriptors[0]'
const limit = `${list}.rate_limit`
const load = 'error loading config file: yaml:'
const secondEnd = 'end of the stream or a document separator is expected'

/** A file, and each of its problems, in order. */
const bad: readonly (readonly [yaml: string, ...problems: string[]])[] = [
  ['domain: [', `${load} line 1: unexpected end of the stream within a flow collection`],
  ['a: b\n c: d', `${load} line 2: bad indentation of a mapping entry`],
  ['domain: a\ndomain: b', `${load} line 2: duplicated mapping key`],
  ['domain: *a', `${load} line 1: unidentified alias "a"`],
  ['domain: !!binary aGk=', `${load} line 1: unknown scalar tag !<tag:yaml.org,2002:binary>`],
  ['just text', `${load} the document cannot be 'just text' (allowed: a map)`],
  ['[a]', `${load} the document cannot be a list (allowed: a map)`],
  ['0.25: x', 'config error, key is not of type string: 0.25 (at 0.25)'],
  ['{domain: d, 5: x, true: x, null: x}', ...['5', 'true', '<nil>'].map(notString)],
  ['? [a, b]\n: x', 'config error, key is not of type string: [a b] (at a list)'],
  [
    '{domain: d, descriptors: [{key: k, ratelimit: {unit: day}}]}',
    `config error, unknown key 'ratelimit' (at ${list}.ratelimit; allowed: one of ${legal})`,
  ],
  [
    '{domain: d, descriptors: [a, {key: k}, 1.5, null]}',
    notMap('a', 'descriptors[0]'),
    notMap('1.5', 'descriptors[2]'),
    notMap('<nil>', 'descriptors[3]'),
  ],
  [descriptor('value: 1.5'), notChecked('1.5', `${list}.value`)],
  [
    rateLimit('requests_per_unit: 99999999999999999999'),
    notChecked('99999999999999999999', `${limit}.requests_per_unit`),
  ],
  ...['-1', '4294967296', "'many'", "'010'", "'1e'", 'true', 'a map', 'a list'].map(found => count(found)),
  [rateLimit('unlimited: 3'), wrong('unlimited', `${limit}.unlimited`, '3', 'true or false')],
  [descriptor('shadow_mode: maybe'), wrong('shadow_mode', `${list}.shadow_mode`, "'maybe'", 'true or false')],
  [descriptor('shadow_mode: "true"'), wrong('shadow_mode', `${list}.shadow_mode`, "'true'", 'true or false')],
  [descriptor('rate_limit: 3'), wrong('rate_limit', limit, '3', 'a map')],
  [descriptor('value: {key: x}'), wrong('value', `${list}.value`, 'a map', 'a text')],
  [
    descriptor('descriptors: {key: x}'),
    wrong('descriptors', `${list}.descriptors`, 'a map', 'a list of maps'),
  ],
  [rateLimit('replaces: [a]'), notMap('a', `${limit}.replaces[0]`)],
  [descriptor('metadata: 3'), `error parsing metadata: it cannot be 3 (at ${list}.metadata; allowed: a map)`],
  [
    descriptor('metadata: {a: {1: x, b: [.inf]}}'),
    `error parsing metadata: key is not of type string: 1 (at ${list}.metadata.a.1)`,
    `error parsing metadata: .inf is not a number of JSON (at ${list}.metadata.a.b[0])`,
  ],
  [
    '{domain: [], descriptors: [{key: {}, rate_limit: {units: 1, requests_per_unit: x}}]}',
    `config error, unknown key 'units' (at ${limit}.units; allowed: one of ${legal})`,
    wrong('domain', 'domain', 'a list', 'a text'),
    wrong('key', `${list}.key`, 'a map', 'a text'),
    wrong('requests_per_unit', `${limit}.requests_per_unit`, "'x'", 'a whole number from 0 to 4294967295'),
  ],
]

function notString(key: string): string {
  const place = key === '<nil>' ? 'null' : key
  return `config error, key is not of type string: ${key} (at ${place})`
}

function notMap(item: string, path: string): string {
  const message = `config error, yaml file contains list of type other than map: ${item}`
  return `${message} (at ${path}; allowed: a map)`
}

function notChecked(found: string, path: string): string {
  const allowed = `a text, such as "${found}", a whole number or a boolean`
  return `error checking config (at ${path}; allowed: ${allowed})`
}

function wrong(field: string, path: string, found: string, allowed: string): string {
  return `${load} ${field} cannot be ${found} (at ${path}; allowed: ${allowed})`
}

function count(found: string): [string, string] {
  const written: Record<string, string> = { 'a map': '{}', 'a list': '[]' }
  const yaml = rateLimit(`requests_per_unit: ${written[found] ?? found}`)
  const path = `${limit}.requests_per_unit`
  return [yaml, wrong('requests_per_unit', path, found, 'a whole number from 0 to 4294967295')]
}

for (const [yaml, ...problems] of bad) {
  test(`rejected:  ${yaml.replaceAll('\n', '\\n')}`, () => {
    assert.deepEqual(
      problemsOf(yaml),
      problems.map(problem => `bad.yaml: ${problem}`),
    )
  })
}

const texts = `
5         -> 5
0x1F      -> 0x1F
007       -> 007
1_000     -> 1_000
1e400     -> 1e400
true      -> true
yes       -> yes
"1.5"     -> 1.5
'it''s'   -> it's
null      ->
~         ->
2024-1-1  -> 2024-1-1
1.2.3.4   -> 1.2.3.4
!!str 1.5 -> 1.5
a#b       -> a#b
`

test('a text field accepts numbers, booleans and null as written', () => {
  for (const line of splitLines(texts)) {
    const [written, meant] = line.split('->').map(part => part.trim())
    const config = parseConfig(`{domain: d, descriptors: [{key: k, value: ${written}}]}`)
    assert.equal(config.descriptors[0]?.value, meant, line)
  }
})

const counts = `
0           -> 0
4294967295  -> 4294967295
+7          -> 7
1_000       -> 1000
0x10        -> 16
0o10        -> 8
010         -> 8
0_7         -> 7
0X1f        -> 31
0b11        -> 3
-0          -> 0
null        -> undefined
~           -> undefined
`

test('requests_per_unit is a whole number in any notation of YAML', () => {
  for (const line of splitLines(counts)) {
    const [written, meant] = line.split('->').map(part => part.trim())
    const config = parseConfig(rateLimit(`requests_per_unit: ${written}`))
    assert.equal(`${config.descriptors[0]?.rateLimit?.requestsPerUnit}`, meant, line)
  }
})

test('brackets and quotes may continue at any column of the next line', () => {
  const yaml = `
domain: "a
b"
descriptors: [
  {key: k, rate_limit: {
unit: day, # of the week
      requests_per_unit: 5
}}
]`
  const rateLimit = { unit: 'day', requestsPerUnit: 5, unlimited: false, name: '', replaces: [] }
  const { domain, descriptors } = parseConfig(yaml)
  assert.deepEqual([domain, descriptors[0]?.key, descriptors[0]?.rateLimit], ['a b', 'k', rateLimit])
  assert.deepEqual(problemsOf(`${yaml}\n]`), [`bad.yaml: ${load} line 10: ${secondEnd}`])
})

test('the parser accepts an empty file, null and empty fields', () => {
  for (const yaml of ['', '# nothing', '---', 'null', '{}', 'domain:', '{domain: "", descriptors: }']) {
    assert.deepEqual(parseConfig(yaml), { name: 'test.yaml', domain: '', descriptors: [] })
  }
  assert.equal(parseConfig(descriptor('rate_limit: null')).descriptors[0]?.rateLimit, undefined)
})

test('valid but probably unintended settings are warnings', () => {
  assert.deepEqual(warningsOf('domain: d\n---\ndomain: e\n---\n'), [
    'odd.yaml: only the first document is read; 1 more follow',
  ])
  assert.deepEqual(warningsOf(descriptor('shadow_mode: Yes, quota_mode: off')), [
    `odd.yaml: 'Yes' is read as true, as in YAML 1.1 (at ${list}.shadow_mode; allowed: true or false)`,
    `odd.yaml: 'off' is read as false, as in YAML 1.1 (at ${list}.quota_mode; allowed: true or false)`,
  ])
  assert.deepEqual(warningsOf('{domain: d, unit: day}'), [
    "odd.yaml: 'unit' has no meaning here (at unit; allowed: here one of domain, descriptors)",
  ])
})

test('aliases and merges are followed', () => {
  const config = parseConfig(`
domain: d
descriptors:
  - &first {key: a, rate_limit: &limit {unit: day, requests_per_unit: 1}}
  - {<<: *first, value: v}
  - {key: b, rate_limit: {<<: *limit, unit: hour}}
  - {key: c, descriptors: [*first]}
`)
  const told = config.descriptors.map(({ key, value, rateLimit: limitOf }) => [key, value, limitOf?.unit])
  assert.deepEqual(told, [
    ['a', '', 'day'],
    ['a', 'v', 'day'],
    ['b', '', 'hour'],
    ['c', '', undefined],
  ])
})
