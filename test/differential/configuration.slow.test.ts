import assert from 'node:assert/strict'
import { test } from 'node:test'
import { compile, listLimits } from '@tollway/ratelimit/rules/compile.ts'
import type { ConfigProblem } from '@tollway/ratelimit/rules/model.ts'
import { validateDomains } from '@tollway/ratelimit/rules/validate.ts'
import { parseYaml } from '@tollway/ratelimit/rules/yaml/parse-yaml.ts'
import fc from 'fast-check'
import { maxHostileCpuMs, measureCpuMs } from '../../services/ratelimit/rules/testing/rules-of-yaml.ts'
import { type ConfigurationDifference, configurationDifferences } from './configuration-differences.ts'
import { mutatedFiles, seedFiles } from './mutate-yaml.ts'
import { type ConfigFile, missingReference, startJudge, type Verdict } from './start-reference.ts'

const skip = missingReference()

/** A long run has a hundred times as many files as a handwritten acceptance corpus would have. */
const runs = process.env['SOAK'] === '1' ? Math.max(10_000, Number(process.env['FC_RUNS'] ?? 0)) : 500
const seed = Number(process.env['FC_SEED'] ?? (process.env['SOAK'] === '1' ? Date.now() % 2 ** 31 : 1))

/** The problems, or the active limits as listed by the reference's debug page, sorted. */
interface Judgement {
  readonly problems: readonly ConfigProblem[]
  readonly rules: string
}

function judge(files: readonly { name: string; text: string }[], merge: boolean): Judgement {
  const parsed = files.map(({ name, text }) => parseYaml(name, text))
  const problems = parsed.flatMap(file => ('problems' in file ? file.problems : []))
  if (problems.length > 0) return { problems, rules: '' }
  const configs = parsed.flatMap(file => ('value' in file ? [file.value] : []))
  const judged = validateDomains(configs, { mergeDomainConfigs: merge, spelling: 'snake' })
  if (judged.problems.length > 0) return { problems: judged.problems, rules: '' }
  const rules = compile(configs, { mergeDomainConfigs: merge, attach: () => undefined })
  const lines = [...listLimits(rules)].map(
    ({ fullKey, unlimited, unit, requestsPerUnit, shadowMode, quotaMode }) => {
      const limit = `unit=${unlimited ? 'UNKNOWN' : unit.toUpperCase()} requests_per_unit=${requestsPerUnit}`
      return `${fullKey}: ${limit}, shadow_mode: ${shadowMode}, quota_mode: ${quotaMode}\n`
    },
  )
  return { problems: [], rules: sortedLines(lines.join('')) }
}

const sortedLines = (text: string) => text.split('\n').sort().join('\n')

/** Returns the kind of difference between the two results; undefined for none. */
function differenceOf({ problems, rules }: Judgement, verdict: Verdict) {
  const refused = verdict.refused ?? verdict.crashed
  if (refused === undefined) {
    if (problems.length > 0) return 'us'
    return rules === sortedLines(verdict.rules ?? '') ? undefined : 'neither'
  }
  if (problems.length === 0) return 'reference'
  // The reference's YAML library has its own texts, and the reference reports only one of several problems.
  const isOfLibrary = /^[^:]*: error loading config file: yaml/.test(refused)
  const isReported = problems.some(({ source, message }) => `${source}: ${message}` === refused)
  return isOfLibrary || isReported ? undefined : 'both'
}

function rowFor(
  text: string,
  kind: ConfigurationDifference['rejectedBy'],
  { problems }: Judgement,
  verdict: Verdict,
): ConfigurationDifference | undefined {
  const fits = (pattern: RegExp | undefined, found: string) => pattern === undefined || pattern.test(found)
  return configurationDifferences.find(
    ({ rejectedBy, ours, reference, file }) =>
      rejectedBy === kind &&
      (ours === undefined || problems.some(({ message }) => ours.test(message))) &&
      fits(reference, verdict.refused ?? verdict.crashed ?? '') &&
      fits(file, text),
  )
}

/** A problem of the whole file, or of a field without a name, has its position in the message. */
const hasPlace = /yaml: (?:line \d+: |the |requests|aliases|lists)|unknown key ''/

test(`${runs} mutated files have the same result, reason and meaning (FC_SEED=${seed})`, {
  skip,
}, async t => {
  const ask = startJudge(t)
  const texts = [...seedFiles, ...fc.sample(mutatedFiles, { seed, numRuns: runs })]
  const seen = new Map<string, number>()
  const unexplained: string[] = []
  let accepted = 0
  for (const text of texts) {
    const file = { name: 'f.yaml', text }
    const asked = ask([file])
    let own: Judgement = { problems: [], rules: '' }
    const tookMs = measureCpuMs(() => {
      own = judge([file], false)
    })
    assert.ok(tookMs < maxHostileCpuMs, `${tookMs} ms of CPU for:\n${text}`)
    for (const { path, message } of own.problems) {
      assert.ok(path !== '' || hasPlace.test(message), `no position: ${message}`)
    }
    const verdict = await asked
    if (own.problems.length === 0) accepted += 1
    const kind = differenceOf(own, verdict)
    if (kind === undefined) continue
    const row = rowFor(text, kind, own, verdict)
    if (row === undefined) unexplained.push(`${rejections[kind]}:\n${text}\n${explain(own, verdict)}`)
    else seen.set(row.name, (seen.get(row.name) ?? 0) + 1)
  }
  for (const [name, times] of seen) t.diagnostic(`${times} × ${name}`)
  assert.equal(unexplained.length, 0, unexplained.slice(0, maxShown).join('\n\n'))
  assert.ok(accepted > runs / 20, `only ${accepted} were accepted, so the test covers too little`)
})

const rejections = {
  us: 'only we reject',
  reference: 'only the reference rejects',
  both: 'both reject, for different reasons',
  neither: 'both accept, with different meanings',
}
/** The number of failures that are shown after a long run. */
const maxShown = 20

function explain({ problems, rules }: Judgement, verdict: Verdict): string {
  const own = problems.map(({ path, message }) => `${path}: ${message}`).join('\n') || rules
  return `--- ours\n${own}\n--- reference\n${verdict.refused ?? verdict.crashed ?? verdict.rules}`
}

const limit = 'rate_limit: {unit: day, requests_per_unit: 1}'
const config = (descriptors: string, domain = 'd') => `domain: ${domain}\ndescriptors: [${descriptors}]`

/** Files that are loaded together, and the result of both. */
const together: readonly (readonly [string, readonly string[], boolean, string])[] = [
  ['no file', [], false, ''],
  ['two domains', [config('{key: k}', 'a'), config('{key: k}', 'b')], false, ''],
  [
    'one domain twice',
    [config('{key: a}'), config('{key: b}')],
    false,
    "1.yaml: duplicate domain 'd' in config file",
  ],
  ['one domain twice, merged', [config(`{key: a, ${limit}}`), config(`{key: b, ${limit}}`)], true, ''],
  [
    'merged, with one entry twice',
    [config(`{key: a, value: b, ${limit}}`), config('{key: a, value: b}')],
    true,
    "1.yaml: duplicate descriptor composite key 'd.a_b'",
  ],
  [
    'merged, with entries below one entry of both',
    [config('{key: a, descriptors: [{key: b}]}'), config('{key: a, descriptors: [{key: c}]}')],
    true,
    "1.yaml: duplicate descriptor composite key 'd.a'",
  ],
  ['an empty file', [''], false, '0.yaml: config file cannot have empty domain'],
  [
    'one bad file of two',
    [config('{key: a}'), config('{key: ""}', 'e')],
    false,
    '1.yaml: descriptor has empty key',
  ],
  [
    'unlimited with a unit',
    [config('{key: a, rate_limit: {unlimited: true, unit: day}}')],
    false,
    '0.yaml: should not specify rate limit unit when unlimited',
  ],
  [
    'unlimited with an invalid unit',
    [config('{key: a, rate_limit: {unlimited: true, unit: foo}}')],
    false,
    '',
  ],
  [
    'a replaced limit without a name',
    [config('{key: a, rate_limit: {unit: day, replaces: [{}]}}')],
    false,
    '0.yaml: should not have an empty replaces entry',
  ],
  [
    'a limit that replaces itself',
    [config('{key: a, rate_limit: {unit: day, name: x, replaces: [{name: x}]}}')],
    false,
    '0.yaml: replaces should not contain name of same descriptor',
  ],
  ['a million names', [config(`{key: ${'k'.repeat(1_000_000)}}`)], false, ''],
]

for (const [name, texts, merge, said] of together) {
  test(`both agree on ${name}: ${said || 'valid'}`, { skip }, async t => {
    const files: (ConfigFile & { text: string })[] = texts.map((text, index) => ({
      name: `${index}.yaml`,
      text,
    }))
    const verdict = await startJudge(t)(files, merge)
    const own = judge(files, merge)
    assert.equal(verdict.refused ?? verdict.crashed ?? '', said)
    assert.ok(
      said === '' ? own.problems.length === 0 : own.problems.some(p => `${p.source}: ${p.message}` === said),
    )
    assert.equal(differenceOf(own, verdict), undefined)
  })
}
