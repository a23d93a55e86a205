import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { test } from 'node:test'
import fc from 'fast-check'
import { missingProgram } from '../../../test/support/require-server.ts'
import { formatNetwork } from './address.ts'
import { openDomain } from './compile.ts'
import { compileDomain } from './compile-domain.ts'
import type { RuleMatch } from './fields.ts'
import { walk } from './match.ts'
import type { RateLimitRule } from './model.ts'
import { makeRule } from './testing/make-rule.ts'
import { validateDomains } from './validate.ts'

const oracle = join(import.meta.dirname, '../../../test/oracles/match.py')
const pairs = Number(process.env['MATCH_PAIRS'] ?? 20_000)
const seed = Number(process.env['MATCH_SEED'] ?? Date.now() % 2 ** 31)
const valuesOfTask = 100

function findMissing(): string | false {
  const noPython = missingProgram('python3')
  if (noPython !== false) return noPython
  if (spawnSync('python3', ['-c', 'import re2']).status === 0) return false
  const reason = 'python3 lacks the package google-re2'
  if (process.env['REQUIRE_SERVERS'] === '1') throw new Error(`${reason}, and REQUIRE_SERVERS=1`)
  process.stderr.write(`SKIPPED: ${reason}\n`)
  return reason
}

const word = fc.string({ unit: fc.constantFrom('a', 'b', '/', '1', 'é', '🚀'), minLength: 1, maxLength: 3 })
const bits = fc
  .tuple(fc.constantFrom('4', '6'), fc.constantFrom('', '0', '1', '00001010'), fc.nat(15))
  .map(([family, start, rest]) => {
    const text = start + rest.toString(2).padStart(4, '0')
    return `${family}${text.padEnd(family === '4' ? 32 : 128, rest % 3 === 0 ? '0' : '01')}`.slice(
      0,
      family === '4' ? 33 : 129,
    )
  })
const network = fc
  .tuple(bits, fc.oneof(fc.nat(14), fc.nat(128)))
  .map(([all, length]) => formatNetwork(all.slice(0, 1 + length)))
const address = bits.chain(all => {
  const text = formatNetwork(all).split('/')[0] ?? ''
  const spellings = all.startsWith('4')
    ? [text, `::ffff:${text}`, `0:0:0:0:0:FFFF:${text}`, `${text} `, `0${text}`]
    : [text, text.toUpperCase(), `${text}%eth0`, `[${text}]`, `:${text}`]
  return fc.constantFrom(...spellings)
})
const regex = fc.oneof(
  fc
    .array(
      fc.constantFrom(
        'a',
        'b',
        '1',
        '/',
        '.',
        '.*',
        '[ab]+',
        '[^a]',
        '(a|b1)',
        '(?i)A',
        'a?',
        'b*?',
        '\\d',
        '\\pL+',
        '[[:alpha:]]',
        'a{1,2}',
        '(?:a|/)*',
        '^',
        '$',
        '\\b',
        'é',
        '(?s:.)',
        '\\w',
        '\\z',
        '(',
        '**',
        '\\1',
        '(?=a)',
        '[b-a]',
        '\\Qa*\\E',
      ),
      { minLength: 1, maxLength: 5 },
    )
    .map(parts => parts.join('')),
)
const way: fc.Arbitrary<RuleMatch | undefined> = fc.oneof(
  word.map(exact => ({ exact })),
  fc.uniqueArray(fc.oneof(word, address), { minLength: 1, maxLength: 4 }).map(oneOf => ({ oneOf })),
  word.map(prefix => ({ prefix })),
  word.map(suffix => ({ suffix })),
  fc.uniqueArray(network, { minLength: 1, maxLength: 4 }).map(cidr => ({ cidr })),
  regex.map(text => ({ regex: text })),
  fc.constant(undefined),
)
const value = fc.oneof({ weight: 3, arbitrary: word }, { weight: 2, arbitrary: address }, fc.constant(''))

/** Leaves out rules that are rejected, alone or beside the earlier ones. */
function admit(ways: readonly (RuleMatch | undefined)[], words: readonly string[]): readonly RateLimitRule[] {
  let rules: readonly RateLimitRule[] = []
  for (const [index, match] of ways.entries()) {
    const name = match === undefined ? (words[index] ?? '') : `${index}`
    const next = [...rules, makeRule('k', { value: name, ...(match && { match }) })]
    const config = { name: 'n', domain: 'd', descriptors: next }
    const { problems } = validateDomains([config], { mergeDomainConfigs: false, spelling: 'camel' })
    if (problems.length === 0) rules = next
  }
  return rules
}

test(`rules match as Python's ipaddress and google-re2 do (${pairs} rules and values, seed ${seed})`, {
  skip: findMissing(),
}, t => {
  const tasks = fc.sample(
    fc.record({
      ways: fc.array(way, { minLength: 8, maxLength: 25 }),
      words: fc.array(fc.oneof({ weight: 9, arbitrary: word }, fc.constant('')), {
        minLength: 25,
        maxLength: 25,
      }),
      values: fc.array(value, { minLength: valuesOfTask, maxLength: valuesOfTask }),
    }),
    { numRuns: Math.ceil(pairs / valuesOfTask), seed },
  )
  const kinds = new Map<string, number>()
  const lines = tasks.map(({ ways, words, values }) => ({ rules: admit(ways, words), values }))
  const input = lines.map(line => JSON.stringify(line)).join('\n')
  const { status, stdout, stderr } = spawnSync('python3', [oracle], {
    input,
    encoding: 'utf8',
    maxBuffer: 2 ** 30,
  })
  assert.equal(status, 0, stderr)
  const expected = stdout.trim().split('\n')
  for (const [index, { rules, values }] of lines.entries()) {
    const table = compileDomain('d', [{ name: 'n', domain: 'd', descriptors: rules }])
    const domain = openDomain(table, { attach: () => undefined })
    const answers: readonly number[] = JSON.parse(expected[index] ?? '')
    for (const [place, text] of values.entries()) {
      const found = walk(domain, [{ key: 'k', value: text }], { counts: false })
      assert.equal(
        found,
        answers[place],
        JSON.stringify({ text, rules: rules.map(rule => [rule.value, rule.match]) }),
      )
      const kind = Object.keys(rules[found]?.match ?? {})[0] ?? (found === -1 ? 'none' : 'value')
      kinds.set(kind, (kinds.get(kind) ?? 0) + 1)
    }
  }
  t.diagnostic(JSON.stringify(Object.fromEntries(kinds)))
  for (const kind of ['exact', 'oneOf', 'cidr', 'prefix', 'suffix', 'regex', 'none', 'value']) {
    assert.ok((kinds.get(kind) ?? 0) > pairs / 500, `too few of ${kind}`)
  }
})
