import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { compile } from '../compile.ts'
import type { ConfigProblem } from '../model.ts'
import { formatProblem, maxFindingsOfKind } from '../problems.ts'
import { maxHostileCpuMs, measureCpuMs } from '../testing/rules-of-yaml.ts'
import { validateDomains } from '../validate.ts'
import { parseYaml } from './parse-yaml.ts'
import { maxDocumentCharacters, maxDocuments, maxIndicators, maxLines } from './yaml-size.ts'

/** Parses and validates a file as far as possible, and returns its problems. */
function problemsOf(yaml: string): readonly ConfigProblem[] {
  const parsed = parseYaml('hostile.yaml', yaml)
  if ('problems' in parsed) return parsed.problems
  const { problems } = validateDomains([parsed.value], { mergeDomainConfigs: false, spelling: 'snake' })
  if (problems.length === 0) compile([parsed.value], { mergeDomainConfigs: false, attach: () => undefined })
  return problems
}

const repeated = (count: number, line: (index: number) => string) =>
  Array.from({ length: count }, (_, index) => line(index)).join('\n')

/** Repeats a text up to the most characters that a file may have. */
const filled = (text: string) => text.repeat(Math.floor((maxDocumentCharacters - 100) / text.length))

const inMetadata = (text: string) => `{domain: d, descriptors: [{key: k, metadata: {${text}}}]}`

const bombs: Readonly<Record<string, () => string>> = {
  'a billion laughs': () => `a: &a0 [x, x]\n${repeated(60, i => `b${i}: &a${i + 1} [*a${i}, *a${i}]`)}`,
  'a billion laughs of maps': () =>
    `a: &a0 {}\n${repeated(60, i => `b${i}: &a${i + 1} {x: *a${i}, y: *a${i}}`)}`,
  'laughs in metadata': () =>
    inMetadata(`m: &a0 {}, ${repeated(40, i => ` m${i}: &a${i + 1} [*a${i}, *a${i}],`)}`),
  'a list in itself': () => 'domain: &a [*a]',
  'a map in itself': () => 'descriptors: &a [{descriptors: *a}]',
  'a merge bomb': () =>
    `b: &b {${repeated(500, i => ` k${i}: 1,`)}}\n${repeated(500, i => `m${i}: {<<: *b}`)}`,
  'many lines with too little indentation': () => `descriptors: [\n${filled('{},\n')}`,
  'some lines with too little indentation': () => `descriptors: [\n${'{},\n'.repeat(1000)}`,
  'many empty merges': () => `b: &b {}\n${repeated(10_000, i => `m${i}: {<<: [*b, *b, *b, *b, *b, *b]}`)}`,
  'deep lists': () => '['.repeat(100_000),
  'deep maps': () => '{a: '.repeat(100_000),
  'deep dashes': () => '- '.repeat(100_000),
  'deep anchors': () => '&a '.repeat(100_000),
  'deep pairs': () => `${'['.repeat(190)}a${']: x'.repeat(190)}`,
  'deep descriptors': () =>
    `descriptors:\n${repeated(300, i => `${'  '.repeat(i)}- key: a\n${'  '.repeat(i)}  descriptors:`)}`,
  'anchors on separate lines': () => repeated(180, i => `${' '.repeat(i)}&a${i}\n${' '.repeat(i)}&b b${i}:`),
  'a list of many numbers': () => `descriptors: [${'1,'.repeat(20_000)}1]`,
  'many unknown keys': () => repeated(20_000, i => `k${i}: 1`),
  'a long number': () => `domain: {a: ${'9'.repeat(100_000)}}`,
  'a long key': () => `${'k'.repeat(1_000_000)}: 1`,
  'a long tag': () => `domain: !<${'a'.repeat(1_000_000)}> x`,
  'an open text': () => `"${'a\\n'.repeat(30_000)}`,
  'a NUL': () => 'domain: a\0b',
  'a NUL at the end': () => `${' '.repeat(1_000_000)}\0`,
  'a lone surrogate': () => 'domain: \ud800',
  'many documents': () => '---\n'.repeat(100_000),
  'many ended documents': () => filled('a\n...\n'),
  'many values': () => `[${filled('a,')}]`,
  'many empty lists': () => `[${filled('[],')}]`,
  'many empty entries': () => filled(':\n'),
  'many empty keys': () => filled('?\r'),
  'many dashes': () => filled('-\n'),
  'many aliases': () => `[&a a,${filled('*a,')}]`,
  'many lines of one text': () => `domain: |\n${filled(' a\n')}`,
  'many empty lines in quotes': () => `domain: "${filled('\n')}"`,
  'a file that is too long': () => ' '.repeat(maxDocumentCharacters + 1),
}

for (const [name, make] of Object.entries(bombs)) {
  test(`hostile: ${name} is rejected at once, with a short message`, () => {
    const yaml = make()
    let problems: readonly ConfigProblem[] = []
    const tookMs = measureCpuMs(() => {
      problems = problemsOf(yaml)
    })
    assert.ok(problems.length > 0 && problems.length <= maxFindingsOfKind + 1, `${problems.length} problems`)
    for (const line of problems.map(formatProblem)) assert.ok(line.length < 4000 && !line.includes('\n'))
    assert.ok(tookMs < maxHostileCpuMs, `it took ${tookMs} ms`)
  })
}

test('a limit that is exceeded is reported with its value', () => {
  const told = (yaml: string) => problemsOf(yaml).map(({ message }) => message.replace(/^.*yaml: /, ''))
  const tooMany = (what: string, max: number) => [`the file has too many ${what}: at most ${max} are allowed`]
  assert.deepEqual(told('a\n---\n'.repeat(maxDocuments)), tooMany('documents', maxDocuments))
  assert.deepEqual(told('\n'.repeat(maxLines)), tooMany('lines', maxLines))
  assert.deepEqual(told(`[${'a,'.repeat(maxIndicators)}]`), tooMany('lists, maps and entries', maxIndicators))
})

test('100,000 descriptors are well within the limits', () => {
  const text = `domain: shop\ndescriptors:\n${repeated(
    100_000,
    index => `  - key: path # ${index}
    value: "/a-path/${index}"
    shadow_mode: false
    rate_limit:
      unit: minute
      requests_per_unit: 5
      name: rule-${index}`,
  )}`
  assert.deepEqual(problemsOf(text), [])
})

const seedFiles = [
  `
domain: shop # what
descriptors:
  - &one
    key: user
    value: "al*ce"
    share_threshold: true
    metadata: {a: [1, 2.5, {b: c}], "d": ~}
    rate_limit: {unit: minute, requests_per_unit: 3, name: x, replaces: [{name: y}]}
    descriptors:
      - key: 'path'
        shadow_mode: true
        rate_limit:
          unlimited: true
  - <<: *one
    value: |
      block*
    descriptors: []
`,
  `%YAML 1.1
--- # one
{"domain": "d", "descriptors":
  [{"key": "k", "value": "v", "rate_limit": {"unit": "day", "requests_per_unit": 1}},
  {? key : a_b, value : !!str 5, detailed_metric: Yes, descriptors: [{key: c, rate_limit: &l {unit: HOUR}},
    {key: "d\\u00e9\\n", rate_limit: *l, quota_mode: true}]}]}
...
`,
]

const pieces = [
  ...'-:{}[]*&!|>\'"%@#,?~ \n\r\t\0\ufeff',
  '<<',
  '<<: *one',
  '&one',
  '*one',
  '!!map ',
  '  ',
  '---\n',
  '...\n',
  '0.5',
  '-1',
  'null',
  'é',
  '\ud800',
  '__proto__: ',
  'descriptors:',
  '- key: user\n',
]

type Edit = { readonly at: number; readonly drop: number; readonly put: string; readonly times: number }
const edits = fc.array(
  fc.record<Edit>({
    at: fc.nat(600),
    drop: fc.oneof({ weight: 5, arbitrary: fc.nat(6) }, fc.nat(200)),
    put: fc.oneof(fc.constantFrom(...pieces), fc.string({ maxLength: 5, unit: 'binary' })),
    // Repeated slices of the file create many anchors, levels and entries.
    times: fc.oneof({ weight: 9, arbitrary: fc.constant(1) }, fc.nat(300)),
  }),
  { minLength: 1, maxLength: 4, size: 'max' },
)

function mutate(file: string, list: readonly Edit[]): string {
  let text = file
  for (const { at, drop, put, times } of list) {
    const place = at % (text.length + 1)
    const repeatedSlice = times === 1 ? put : (put + text.slice(place, place + drop)).repeat(times)
    text = (text.slice(0, place) + repeatedSlice + text.slice(place + drop)).slice(0, 100_000)
  }
  return text
}

const numRuns = Number(process.env['FC_RUNS'] ?? 2_000)

test(`${numRuns} mutated files are accepted or rejected with a position, and none takes long`, () => {
  for (const file of seedFiles) assert.deepEqual(problemsOf(file), [])
  let accepted = 0
  const property = fc.property(fc.constantFrom(...seedFiles), edits, (file, list) => {
    const text = mutate(file, list)
    let problems: readonly ConfigProblem[] = []
    const tookMs = measureCpuMs(() => {
      problems = problemsOf(text)
    })
    assert.ok(tookMs < maxHostileCpuMs, `it took ${tookMs} ms`)
    if (problems.length === 0) accepted += 1
    for (const problem of problems) {
      assert.ok(!formatProblem(problem).includes('\n'))
      assert.ok(
        problem.path !== '' || /yaml: (line \d+: |the )|more than|aliases|nested/.test(problem.message),
        problem.message,
      )
    }
  })
  fc.assert(property, { seed: 3, numRuns })
  assert.ok(accepted > numRuns / 50, `only ${accepted} were accepted, so the test covers too little`)
})
