import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { test } from 'node:test'
import fc from 'fast-check'
import { missingProgram } from '../../../test/support/require-server.ts'
import { formatNetwork } from './address.ts'
import { compile } from './compile.ts'
import type { RuleMatch } from './fields.ts'
import { match } from './match.ts'
import type { RateLimitRule } from './model.ts'
import { makeLimit, makeRule } from './testing/make-rule.ts'
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
const matching: fc.Arbitrary<RuleMatch> = fc.oneof(
  word.map(exact => ({ exact })),
  fc.uniqueArray(fc.oneof(word, address), { minLength: 1, maxLength: 4 }).map(oneOf => ({ oneOf })),
  word.map(prefix => ({ prefix })),
  word.map(suffix => ({ suffix })),
  fc.uniqueArray(network, { minLength: 1, maxLength: 4 }).map(cidr => ({ cidr })),
  regex.map(text => ({ regex: text })),
)
/** A rule with `match`, one with a `*` in its key or value, or one with a value or for any value. */
const way: fc.Arbitrary<Partial<RateLimitRule>> = fc.oneof(
  { weight: 7, arbitrary: matching.map(way => ({ match: way })) },
  fc
    .tuple(
      fc.constantFrom('k', 'k', 'k*', '*', '*k'),
      fc.constantFrom('', '*', '1*', 'a*', '*b*', '*::*'),
      word,
    )
    .map(([key, pattern, text]) => ({ key, value: key === 'k' && pattern === '' ? `*${text}` : pattern })),
  fc.constant({}),
)
/** What the counters of a rule are named after, if the rule may have it. */
const counted: fc.Arbitrary<Partial<RateLimitRule>> = fc.oneof(
  fc.constant({}),
  fc.constant({ shareThreshold: true }),
  fc
    .tuple(fc.option(fc.integer({ min: 1, max: 32 })), fc.option(fc.integer({ min: 1, max: 128 })))
    .map(([ipv4Prefix, ipv6Prefix]) => ({
      groupBy: { ...(ipv4Prefix && { ipv4Prefix }), ...(ipv6Prefix && { ipv6Prefix }) },
    })),
)
const value = fc.oneof({ weight: 3, arbitrary: word }, { weight: 2, arbitrary: address }, fc.constant(''))

type Task = Readonly<Record<'ways' | 'counts', readonly Partial<RateLimitRule>[]>> & {
  readonly words: readonly string[]
}

/** Leaves out what is rejected, alone or beside the earlier rules: how a rule counts, or all of it. */
function admit({ ways, counts, words }: Task): readonly RateLimitRule[] {
  let rules: readonly RateLimitRule[] = []
  for (const [index, way] of ways.entries()) {
    const name = way.match === undefined ? (words[index] ?? '') : `${index}`
    const rateLimit = makeLimit(rules.length, 'day')
    const rule = makeRule('k', { value: name, rateLimit, ...way })
    const choices = [{ ...rule, ...counts[index] }, rule].map(each => [...rules, each])
    rules = choices.find(isAccepted) ?? rules
  }
  return rules
}

function isAccepted(descriptors: readonly RateLimitRule[]): boolean {
  const config = { name: 'n', domain: 'd', descriptors }
  return validateDomains([config], { mergeDomainConfigs: false, spelling: 'camel' }).problems.length === 0
}

/** Names how the rule matches and how it counts. */
function describeKind({ key, value, match: how, shareThreshold, groupBy }: RateLimitRule): string {
  const matched =
    Object.keys(how ?? {})[0] ?? (`${key}${value}`.includes('*') ? '*' : value === '' ? 'any' : 'value')
  return `${matched}${shareThreshold ? ' shared' : groupBy ? ' grouped' : ''}`
}

test(`rules match and count as Python's ipaddress and google-re2 do (${pairs} rules and values, seed ${seed})`, {
  skip: findMissing(),
}, t => {
  const tasks = fc.sample(
    fc.record({
      ways: fc.array(way, { minLength: 8, maxLength: 25 }),
      counts: fc.array(counted, { minLength: 25, maxLength: 25 }),
      words: fc.array(fc.oneof({ weight: 9, arbitrary: word }, fc.constant('')), {
        minLength: 25,
        maxLength: 25,
      }),
      values: fc.array(value, { minLength: valuesOfTask, maxLength: valuesOfTask }),
    }),
    { numRuns: Math.ceil(pairs / valuesOfTask), seed },
  )
  const kinds = new Map<string, number>()
  const lines = tasks.map(task => ({ rules: admit(task), values: task.values }))
  const input = lines.map(line => JSON.stringify(line)).join('\n')
  const { status, stdout, stderr } = spawnSync('python3', [oracle], {
    input,
    encoding: 'utf8',
    maxBuffer: 2 ** 30,
  })
  assert.equal(status, 0, stderr)
  const expected = stdout.trim().split('\n')
  for (const [index, { rules, values }] of lines.entries()) {
    const config = { name: 'n', domain: 'd', descriptors: rules }
    const compiled = compile([config], { mergeDomainConfigs: false, attach: () => undefined })
    const answers: readonly (readonly [rule: number, counted: string])[] = JSON.parse(expected[index] ?? '')
    for (const [place, text] of values.entries()) {
      const found = match(compiled, 'd', [{ key: 'k', value: text }])
      const [rule = -1, name] = answers[place] ?? []
      assert.deepEqual(
        [found?.limit.requestsPerUnit, found?.baseKey],
        rule === -1 ? [undefined, undefined] : [rule, `d_k_${name}_`],
        JSON.stringify({ text, rules }),
      )
      const kind = rules[rule] === undefined ? 'none' : describeKind(rules[rule])
      kinds.set(kind, (kinds.get(kind) ?? 0) + 1)
    }
  }
  t.diagnostic(JSON.stringify(Object.fromEntries(kinds)))
  const expectedKinds = [
    ...['exact', 'oneOf', 'cidr', 'prefix', 'suffix', 'regex', '*'].flatMap(kind => [kind, `${kind} shared`]),
    ...['value', 'any', 'any grouped', 'cidr grouped', 'none'],
  ]
  for (const kind of expectedKinds) {
    assert.ok((kinds.get(kind) ?? 0) > pairs / 2_000, `too few of ${kind}`)
  }
})
