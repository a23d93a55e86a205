import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import {
  formatDescriptorEntries,
  formatDescriptorParameters,
  parseDescriptorEntries,
} from '../api/entries.ts'
import { readEntry } from '../api/input.ts'
import { readEvents } from '../api/read-events.ts'
import { describeCaveats, formatBounds } from '../api/replay-bounds.ts'
import type { WhatIfAnswer } from '../api/shapes.ts'
import { parseEntriesOption as parseArgument } from '../cli/entries.ts'
import { parseYamlDocument } from '../yaml.ts'
import { currentPods } from './browser/data/current-pods.ts'
import { diffLines } from './browser/data/diff-lines.ts'
import { findFieldLine } from './browser/data/find-line.ts'
import { displayText, findHiddenCharacters, formatCurrency, formatShare } from './browser/data/format.ts'
import { buildRuleTree, flatten } from './browser/data/rule-tree.ts'
import { SeriesBuffer } from './browser/data/series-buffer.ts'
import { matches, TapBuffer } from './browser/data/tap-buffer.ts'

test('entries are formatted and parsed without a loss, and the API reads their parameters', () => {
  for (const [key, value] of [
    ['user', 'alice'],
    ['path', '/pay?a=1,b=2'],
    ['back\\slash', 'a\\,b'],
    ['per%cent+plus', '100% + 1'],
    ['empty', ''],
  ] as const) {
    const entries = [{ key, value }]
    assert.deepEqual(parseDescriptorEntries(formatDescriptorEntries(entries)), entries)
    const [sent = ''] = formatDescriptorParameters(entries)
    assert.deepEqual(readEntry(new URLSearchParams({ d: sent }).toString().slice(2), 'd'), { key, value })
  }
  assert.deepEqual(parseDescriptorEntries('user=alice, path=C:\\temp\\,x,100%=a=b '), [
    { key: 'user', value: 'alice' },
    { key: 'path', value: 'C:\\temp,x' },
    { key: '100%', value: 'a=b ' },
  ])
  for (const [text, message] of [
    ['', /^"" is not KEY=VALUE, such as user=alice$/],
    ['user=a,', /"" is not KEY=VALUE/],
    ['user', /"user" is not KEY=VALUE/],
    ['=x', /is not KEY=VALUE/],
  ] as const)
    assert.match(`${parseDescriptorEntries(text)}`, message)
})

test('all entries are written and parsed without a loss, by the console and by commands', () => {
  const text = fc.oneof(
    fc.string({ unit: fc.constantFrom(...' =,%\\\n\t+"%3Dab\u00a0é'), maxLength: 12 }),
    fc.string({ unit: 'binary', maxLength: 8 }),
  )
  const key = text.filter(each => each !== '')
  const entries = fc.array(fc.record({ key, value: text }), { minLength: 1, maxLength: 4 })
  fc.assert(
    fc.property(entries, all => {
      const plain = all.map(({ key, value }) => ({ key, value }))
      assert.deepEqual(parseDescriptorEntries(formatDescriptorEntries(plain)), plain)
      assert.deepEqual(parseArgument(formatDescriptorEntries(plain)), plain)
      for (const [index, sent] of formatDescriptorParameters(plain).entries()) {
        const raw = new URLSearchParams({ d: sent }).toString().slice(2)
        assert.deepEqual(readEntry(raw, 'd'), plain[index])
      }
    }),
    { numRuns: 2_000 },
  )
})

test('YAML has the schema of manifests: merge keys, and dates and yes as texts', () => {
  const text = 'a: &a {unit: hour}\nb: {<<: *a, on: yes}\nc: 2026-01-01\n'
  assert.deepEqual(parseYamlDocument(text), {
    value: { a: { unit: 'hour' }, b: { unit: 'hour', on: 'yes' }, c: '2026-01-01' },
  })
})

test('a document of YAML has limits, since a few aliases can stand for more than any memory can hold', () => {
  const levels = Array.from(
    { length: 20 },
    (_, level) => `l${level + 1}: &l${level + 1} [*l${level}, *l${level}]`,
  )
  const [bomb, deep] = [parseYamlDocument(`l0: &l0 ${'x'.repeat(100)}\n${levels.join('\n')}`), '['.repeat(70)]
  assert.match(JSON.stringify(bomb), /with its aliases written out the document has over 4000000 characters/)
  const aliases = parseYamlDocument(`a: &a 1\nb: [${'*a, '.repeat(101)}]`)
  for (const rejected of [aliases, parseYamlDocument(deep + ']'.repeat(70))]) {
    assert.ok('message' in rejected && rejected.line !== undefined, JSON.stringify(rejected).slice(0, 200))
  }
})

test('rules are nested by their paths, below descriptors without a limit too', () => {
  const paths = [['a.b'], ['path_/pay*', 'plan_free'], ['path_/pay*s'], ['path_/pay*s', 'burst']]
  const rows = flatten(buildRuleTree(paths.map(path => ({ path }))))
  assert.deepEqual(
    rows.map(({ node: { label, rule }, depth }) => `${depth} ${label}${rule ? '' : ', no limit'}`),
    ['0 a.b', '0 path_/pay*, no limit', '1 plan_free', '0 path_/pay*s', '1 burst'],
  )
})

test('the line of a field is that of the deepest part that begins a line', () => {
  const text = `# limits
spec:
  domain: shop

  descriptors:
    - key: user # each
      rateLimit: {unit: minuet}
    - value: x
      key: path
      descriptors:
      - key: plan
        rateLimit:
          unit: hours
`
  for (const [field, line] of [
    ['spec.domain', 3],
    ['spec.descriptors[0].key', 6],
    ['spec.descriptors[0].rateLimit.unit', 7],
    ['spec.descriptors[1].key', 9],
    ['spec.descriptors[1].descriptors[0].rateLimit.unit', 13],
    ['spec.descriptors[7].key', 5],
    ['metadata.name', undefined],
  ] as const)
    assert.equal(findFieldLine(text, field), line, field)
})

test('a diff has the changed lines with two lines around them', () => {
  const before = 'a\nb\nc\nd\ne\nf\ng\nh\ni'
  assert.deepEqual(diffLines(before, before), [])
  assert.deepEqual(diffLines(before, 'a\nB\nc\nd\ne\nf\ng\nh\nnew\ni'), [
    ...['@@ line 1 @@', ' a', '-b', '+B', ' c', ' d'],
    ...['@@ line 7 @@', ' g', ' h', '+new', ' i'],
  ])
  assert.deepEqual(diffLines('', 'a\nb'), ['@@ line 0 @@', '-', '+a', '+b'])
})

test('control characters are shown as their codes, and a long text is cut', () => {
  assert.equal(displayText('a\u202Eb\u0000c\nd'), 'a\\u{202e}b\\u{0}c\\u{a}d')
  assert.equal(displayText('\ud800'), '\\u{d800}')
  assert.match(displayText('x'.repeat(1_000_000)), /^x{100}… 1,000,000 characters …x{20}$/)
})

test('the first line with hidden marks is found', () => {
  assert.equal(findHiddenCharacters('kind: x\r\n\tspec: é'), undefined)
  assert.deepEqual(findHiddenCharacters('a\nb\u202E\u202Ec\u200b'), { line: 2, codes: '\\u{202e} \\u{200b}' })
})

test('an amount has the digits of its currency', () => {
  for (const [currency, amount, exponent, text] of [
    ['DKK', '4916500', 2, '49,165.00 DKK'],
    ['DKK', '-5', 2, '−0.05 DKK'],
    ['JPY', '1200', 0, '1,200 JPY'],
    ['KWD', '9007199254740993001', 3, '9,007,199,254,740,993.001 KWD'],
  ] as const)
    assert.equal(formatCurrency({ currency, amount, exponent }), text)
})

test('buffers keep the newest points and decisions', () => {
  const series = new SeriesBuffer(1, 2)
  for (const [at, value] of [
    [1, 10],
    [2, 20],
    [2, 21],
    [3, 30],
  ] as const)
    series.push(at, [value])
  assert.deepEqual(series.columns, [
    [2, 3],
    [21, 30],
  ])
  series.push(2.5, [31])
  assert.deepEqual(series.columns, [
    [2, 3],
    [21, 31],
  ])
  series.push(-3_600, [5])
  assert.deepEqual(series.columns, [[-3_600], [5]], 'the clock was set back')
  const decision = {
    ...{ atMs: 1, pod: 'pod-a', entries: [{ key: 'user', value: 'Alice' }], rule: 'shop.user' },
    ...{ over: false, reason: 'within the limit', hits: 1, limit: 3, remaining: 2 },
  }
  const kept = new TapBuffer().add(Array.from({ length: 300 }, () => decision))
  assert.equal(kept.length, 200)
  const [newest] = kept
  assert.ok(newest)
  assert.equal(matches(newest, { text: 'alice', isRejectedOnly: false }), true)
  assert.equal(matches(newest, { text: 'alice', isRejectedOnly: true }), false)
  assert.equal(matches(newest, { text: 'bob', isRejectedOnly: false }), false)
})

test('a restarted process is listed once', () => {
  const pod = (name: string, isReporting: boolean, lastReportMsAgo: number) => ({
    ...{ pod: name, namespace: '', isReporting, lastReportMsAgo, backend: 'memory', backendProblem: '' },
    ...{ decisionsPerSecond: 0, p50Ms: 0, p99Ms: 0, features: [] },
  })
  const [again, before, silent] = [pod('a', true, 1), pod('a', false, 20_000), pod('b', false, 12_000)]
  assert.deepEqual(currentPods([before, again, silent]), [again, silent])
})

const hits = { allowed: 12, refused: 3, refusedAtLeast: 3, refusedAtMost: 3 }
type Coverage = WhatIfAnswer['coverage']

const coverage: Coverage = {
  ...{ fromMs: 1, recordedCalls: 15, calls: 15, share: 1, resolutionMs: 1, clocksMs: 2, pods: 2 },
  ...{ started: [], missing: [] },
}

interface Caveat {
  readonly now?: Partial<typeof hits>
  readonly covered?: Partial<Coverage>
  readonly expected: readonly RegExp[]
}

const caveats: Readonly<Record<string, Caveat>> = {
  'an exact answer': { expected: [] },
  'hits from before': { now: { refusedAtMost: 1_500 }, expected: [/^Brackets have the bounds/] },
  'a sample': { covered: { share: 1 / 4 }, expected: [/^One of 4 keys is recorded/] },
  'whole seconds': { covered: { resolutionMs: 1000 }, expected: [/^Times are whole seconds/] },
  'clocks that differ': { covered: { clocksMs: 2_500 }, expected: [/differ by up to 2,500 ms/] },
  'a new pod': {
    covered: { started: ['a\u202eb'] },
    expected: [/^Calls before the start of a[^\u202e]+b, /],
  },
}

for (const [what, { now, covered, expected }] of Object.entries(caveats)) {
  test(`a what-if has the caveats of ${what}`, () => {
    const rules = [{ rule: 'r', now: { ...hits, ...now }, proposed: hits }]
    const shown = describeCaveats({ rules, coverage: { ...coverage, ...covered } }, name => displayText(name))
    assert.equal(shown.length, expected.length, shown.join(' '))
    for (const [index, pattern] of expected.entries()) assert.match(shown[index] ?? '', pattern)
  })
}

test('the bounds of an exact number are not shown', () => {
  assert.equal(formatBounds(hits), '')
  assert.equal(formatBounds({ refused: 3 }), '', 'of an earlier operator')
  assert.equal(formatBounds({ ...hits, refusedAtMost: 1_500 }), '3 to 1,500')
})

test('only none and all are shown as 0 and 100 %', () => {
  const shown = [0, 0.0001, 0.01, 0.666, 0.99, 0.9999, 1].map(formatShare)
  assert.deepEqual(shown, ['0 %', '<1 %', '1 %', '67 %', '99 %', '>99 %', '100 %'])
})

test('events are read across chunks, without comments and without an event that is too long', async () => {
  const long = `event: point\ndata: "${'x'.repeat(5 * 1024 * 1024)}"\n\n`
  const text = `: heartbeat\n\nevent: point\ndata: {"a":1}\n\n${long}event: end\ndata: {}\n\n`
  for (const size of [65_537, 1024 * 1024, text.length]) {
    const bytes = Buffer.from(text)
    const body = new ReadableStream({
      start(controller) {
        for (let at = 0; at < bytes.length; at += size) controller.enqueue(bytes.subarray(at, at + size))
        controller.close()
      },
    })
    assert.deepEqual(await Array.fromAsync(readEvents(new Response(body))), [
      { name: 'point', data: { a: 1 } },
      { name: 'end', data: {} },
    ])
  }
})
