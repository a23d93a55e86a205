import assert from 'node:assert/strict'
import { test } from 'node:test'
import { formatProblem } from '../../rules/problems.ts'
import { applyMappings } from './mapping.ts'
import { parseMappingFile } from './mapping-file.ts'

function parse(text: string) {
  const read = parseMappingFile('map', text)
  if ('problems' in read) return { problems: read.problems.map(formatProblem), warnings: [], mappings: [] }
  return { problems: [], warnings: read.warnings.map(formatProblem), mappings: read.value }
}

/** Applies a file to a counter: `name label=value`, or why there is no metric. */
function apply(text: string, statName: string): string {
  const { problems, mappings } = parse(text)
  assert.deepEqual(problems, [])
  const mapped = applyMappings(mappings, 'counter', statName)
  if (mapped === undefined) return 'unmapped'
  if (mapped.mapping.drop) return 'dropped'
  return [mapped.name, ...[...mapped.labels].map(pair => pair.join('='))].join(' ')
}

const file = `
defaults: {match_type: glob, glob_disable_ordering: false, ttl: 0, timer_type: histogram, buckets: [1, 2.5]}
mappings:
  - match: 'test\\.(\\w+)\\.(?P<kind>\\w+)\\.c'
    match_type: regex
    name: \${2}_total
    help: some help
    labels: {provider: $1, fixed: 5}
  - match: limits.*.*
    name: limits
    labels:
      domain: $1
      key: "$2"
      job: \${1}_server
  - {match: limits.*.*, name: second}
  - {match: only.*, name: only, match_metric_type: observer}
  - {match: ^limits, match_type: regex, name: third}
  - {match: ., match_type: regex, action: drop, name: dropped}
`

test('a mapping file has the same meaning as for statsd_exporter', () => {
  assert.equal(apply(file, 'test.a.b.c'), 'b_total provider=a fixed=5')
  assert.equal(apply(file, 'test.a.b.c.anywhere'), 'b_total provider=a fixed=5')
  assert.equal(apply(file, 'limits.d.k'), 'limits domain=d key=k job=d_server')
  assert.equal(apply(file, 'limits.d.k.more'), 'third')
  assert.equal(apply(file, 'only.this'), 'dropped')
  assert.equal(apply('mappings: [{match: a, name: b}]', 'c'), 'unmapped')
  assert.equal(apply('', 'c'), 'unmapped')
})

test('globs come before regular expressions, in any order of the file', () => {
  const text = 'mappings: [{match: ., match_type: regex, name: regex}, {match: a.*, name: glob}]'
  assert.equal(apply(text, 'a.b'), 'glob')
  assert.equal(apply(text, 'b'), 'regex')
})

test('buckets come from the mapping, its options, the defaults, or Prometheus', () => {
  const buckets = (text: string) => parse(text).mappings[0]?.buckets
  const match = 'match: a, name: a'
  assert.deepEqual(buckets(`{defaults: {buckets: [1, 2]}, mappings: [{${match}}]}`), [1, 2])
  assert.deepEqual(buckets(`{defaults: {histogram_options: {buckets: [3]}}, mappings: [{${match}}]}`), [3])
  assert.deepEqual(buckets(`{defaults: {buckets: [1]}, mappings: [{${match}, buckets: [5]}]}`), [5])
  assert.deepEqual(buckets(`mappings: [{${match}, histogram_options: {buckets: [.5, 1e1]}}]`), [0.5, 10])
  assert.deepEqual(buckets(`mappings: [{${match}}]`)?.length, 11)
})

test('fields without effect are reported as warnings', () => {
  const text = `
defaults: {ttl: 1m20s, glob_disable_ordering: true}
mappings: [{match: a.*, name: a, ttl: 0s, honor_labels: true, labels: {b: $2}}]`
  assert.deepEqual(parse(text).warnings, [
    'map: has no effect: series are never removed (at defaults.ttl; allowed: 0, 0s)',
    'map: has no effect: globs are tried in order (at defaults.glob_disable_ordering; allowed: false)',
    'map: has no effect: the labels of a mapping win over EXTRA_TAGS (at mappings[0].honor_labels; allowed: false)',
    'map: $2 is always empty: the match has no such group (at mappings[0].labels.b; allowed: $1 to $1)',
  ])
})

/** A file, and the beginning of its one problem after `map: `. */
const wrong: Readonly<Record<string, string>> = {
  'mappings: [': 'line 1: ',
  a: 'cannot be a (allowed: a map)',
  'mapping: []': 'unknown key (at mapping; allowed: one of defaults, mappings)',
  'mappings: {}': 'cannot be a map (at mappings; allowed: a list of maps)',
  'mappings: [a]': 'cannot be a (at mappings[0]; allowed: a map)',
  'mappings: [{name: a}]': 'is missing (at mappings[0].match; allowed: a glob or a regular expression)',
  'mappings: [{match: a}]': "'' is not the name of a metric (at mappings[0].name;",
  'mappings: [{match: a*.b, name: a}]': "'a*.b' is not a glob (at mappings[0].match;",
  'mappings: [{match: a..b, name: a}]': "'a..b' is not a glob (at mappings[0].match;",
  'mappings: [{match: (, match_type: regex, name: a}]': "'(': Invalid regular expression",
  'mappings: [{match: (?=a), match_type: regex, name: a}]': "'(?=a)': Invalid regular expression",
  'mappings: [{match: a, match_type: fnmatch, name: a}]':
    "'fnmatch' is not supported (at mappings[0].match_type; allowed: glob, regex)",
  'mappings: [{match: a, name: 9a}]': "'9a' is not the name of a metric",
  'mappings: [{match: a, name: a-b}]': "'a-b' is not the name of a metric",
  'mappings: [{match: a, name: a, action: keep}]': "'keep' is not supported",
  'mappings: [{match: a, name: a, match_metric_type: set}]': "'set' is not supported",
  'mappings: [{match: a, name: a, labels: [b]}]': 'cannot be a list (at mappings[0].labels;',
  'mappings: [{match: a, name: a, labels: {a-b: c}}]':
    "'a-b' is not the name of a label (at mappings[0].labels.a-b;",
  'mappings: [{match: a, name: a, labels: {__a: c}}]': "'__a' is not the name of a label",
  'mappings: [{match: a, name: a, labels: {le: c}}]': "'le' is not the name of a label",
  'mappings: [{match: a, name: a, labels: {b: [c]}}]':
    'cannot be a list (at mappings[0].labels.b; allowed: a text)',
  'mappings: [{match: a, name: a, scale: x}]': 'cannot be x (at mappings[0].scale; allowed: a number)',
  'mappings: [{match: a, name: a, buckets: [2, 1]}]':
    '[2, 1] (at mappings[0].buckets; allowed: ascending numbers',
  'mappings: [{match: a, name: a, buckets: [.inf]}]': 'cannot be a list (at mappings[0].buckets;',
  'mappings: [{match: a, name: a, buckets: 1}]': 'cannot be 1 (at mappings[0].buckets;',
  'mappings: [{match: a, name: a, timer_type: summary}]':
    "'summary' is not supported (at mappings[0].timer_type; allowed: histogram)",
  'mappings: [{match: a, name: a, quantiles: []}]': 'summaries are not supported (at mappings[0].quantiles;',
  'mappings: [{match: a, name: a, histogram_options: {bounds: []}}]':
    'unknown key (at mappings[0].histogram_options.bounds; allowed: one of buckets)',
}

test('problems are reported with their path and the allowed values', () => {
  for (const [text, expected] of Object.entries(wrong)) {
    const { problems } = parse(text)
    assert.equal(problems.length, 1, `${text}: ${problems.join('\n')}`)
    assert.ok(problems[0]?.startsWith(`map: ${expected}`), `${text}: ${problems[0]}`)
  }
})

test('all problems are reported, and the size of a file is limited', () => {
  assert.equal(parse('mappings: [{match: a, nam: a}, {name: b}]').problems.length, 3)
  const many = `mappings: [${'{match: a, name: a}, '.repeat(1001)}]`
  assert.deepEqual(parse(many).problems, ['map: has 1001 items (at mappings; allowed: at most 1000)'])
})
