import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { RateLimitRule } from './model.ts'
import { formatProblem, maxFindingsOfKind } from './problems.ts'
import { maxHostileCpuMs, measureCpuMs, parseConfig } from './testing/rules-of-yaml.ts'
import { maxDescriptorDepth, type ValidateOptions, validateDomains } from './validate.ts'

const asFiles: ValidateOptions = { mergeDomainConfigs: false, spelling: 'snake' }

function judge(yamls: readonly string[], options = asFiles) {
  const configs = yamls.map((yaml, index) => parseConfig(yaml, `${'abc'[index]}.yaml`))
  const { problems, warnings } = validateDomains(configs, options)
  return { problems: problems.map(formatProblem), warnings: warnings.map(formatProblem) }
}

const day = 'rate_limit: {unit: day, requests_per_unit: 1}'
const unitNames = 'one of second, minute, hour, day, week, month, year'
const list = 'descriptors[0]'

function duplicate(place: string, key: string, path: string, first: string): string {
  const message = `${place}: duplicate descriptor composite key '${key}'`
  return `${message} (at ${path}; allowed: once; it is also at a.yaml, ${first})`
}

function cannotShare(place: string, key: string, path: string): string {
  const message = `${place}: share_threshold can only be used with wildcard values (containing '*')`
  return `${message}, but found key '${key}' (at ${path})`
}

/** Files, and all their problems, in order. */
const bad: readonly { files: readonly string[]; problems: readonly string[] }[] = [
  { files: [''], problems: ['a.yaml: config file cannot have empty domain (at domain)'] },
  {
    files: ['', '{}'],
    problems: ['a', 'b'].map(name => `${name}.yaml: config file cannot have empty domain (at domain)`),
  },
  {
    files: ['domain: test-domain', 'domain: test-domain'],
    problems: [
      "b.yaml: duplicate domain 'test-domain' in config file " +
        '(at domain; allowed: one configuration for each domain)',
    ],
  },
  {
    files: ['{domain: d, descriptors: [{value: v}, {key: "", value: v}]}'],
    problems: [0, 1].map(index => `a.yaml: descriptor has empty key (at descriptors[${index}].key)`),
  },
  {
    files: [
      '{domain: test-domain, descriptors: [{key: key1, value: value1}, {key: k}, ' +
        '{key: key1, value: value1}]}',
    ],
    problems: [duplicate('a.yaml', 'test-domain.key1_value1', 'descriptors[2]', list)],
  },
  {
    files: ['{domain: d, descriptors: [{key: a, value: b_c}, {key: a_b, value: c}]}'],
    problems: [duplicate('a.yaml', 'd.a_b_c', 'descriptors[1]', list)],
  },
  {
    files: ['{domain: d, descriptors: [{key: a, descriptors: [{key: b}, {key: b}]}, {key: b}]}'],
    problems: [duplicate('a.yaml', 'd.a.b', `${list}.descriptors[1]`, `${list}.descriptors[0]`)],
  },
  {
    files: ['{domain: d, descriptors: [{key: k, rate_limit: {unit: foo, requests_per_unit: 1}}]}'],
    problems: [`a.yaml: invalid rate limit unit 'foo' (at ${list}.rate_limit.unit; allowed: ${unitNames})`],
  },
  {
    files: ['{domain: d, descriptors: [{key: k, rate_limit: {requests_per_unit: 1}}]}'],
    problems: [`a.yaml: invalid rate limit unit '' (at ${list}.rate_limit.unit; allowed: ${unitNames})`],
  },
  {
    files: ['{domain: d, descriptors: [{key: k, rate_limit: {unit: UNKNOWN, requests_per_unit: 1}}]}'],
    problems: [
      `a.yaml: invalid rate limit unit 'UNKNOWN' (at ${list}.rate_limit.unit; allowed: ${unitNames})`,
    ],
  },
  {
    files: ['{domain: d, descriptors: [{key: k, rate_limit: {unit: constructor, requests_per_unit: 1}}]}'],
    problems: [
      `a.yaml: invalid rate limit unit 'constructor' (at ${list}.rate_limit.unit; allowed: ${unitNames})`,
    ],
  },
  {
    files: ['{domain: d, descriptors: [{key: k, rate_limit: {unit: day, unlimited: true}}]}'],
    problems: [
      'a.yaml: should not specify rate limit unit when unlimited ' +
        `(at ${list}.rate_limit.unit; allowed: no unit)`,
    ],
  },
  {
    files: [
      '{domain: d, descriptors: [{key: k, rate_limit: {name: n, unit: day, requests_per_unit: 1, ' +
        'replaces: [{name: a}, {}, {name: n}]}}]}',
    ],
    problems: [
      `a.yaml: should not have an empty replaces entry (at ${list}.rate_limit.replaces[1].name)`,
      'a.yaml: replaces should not contain name of same descriptor ' +
        `(at ${list}.rate_limit.replaces[2].name; allowed: another name)`,
    ],
  },
  {
    files: [`{domain: d, descriptors: [{key: k, value: v, share_threshold: true, ${day}}]}`],
    problems: [cannotShare('a.yaml', 'k_v', `${list}.share_threshold`)],
  },
  {
    files: [
      '{descriptors: [{key: "", rate_limit: {unit: x, requests_per_unit: 1}, descriptors: [{value: v}]}]}',
      '{domain: d, descriptors: [{key: k, share_threshold: true}]}',
    ],
    problems: [
      'a.yaml: config file cannot have empty domain (at domain)',
      `a.yaml: descriptor has empty key (at ${list}.key)`,
      `a.yaml: invalid rate limit unit 'x' (at ${list}.rate_limit.unit; allowed: ${unitNames})`,
      `a.yaml: descriptor has empty key (at ${list}.descriptors[0].key)`,
      cannotShare('b.yaml', 'k', `${list}.share_threshold`),
    ],
  },
]

for (const { files, problems } of bad) {
  test(`rejected: ${files.join(' and ')}`, () => assert.deepEqual(judge(files).problems, problems))
}

test('files that the reference accepts are accepted', () => {
  const right = [
    '{domain: d}',
    '{domain: d, descriptors: [{key: k, rate_limit: {unit: nonsense, unlimited: true}}]}',
    '{domain: d, descriptors: [{key: k, rate_limit: {unlimited: true, requests_per_unit: 3}}]}',
    '{domain: d, descriptors: [{key: k, rate_limit: {unit: wEEk, requests_per_unit: 0}}]}',
    '{domain: d, descriptors: [{key: k*, share_threshold: true}]}',
    '{domain: d, descriptors: [{key: k, value: "*x", share_threshold: true}]}',
    '{domain: d, descriptors: [{key: k}, {key: k, value: v}, {key: k, value: V}, {key: K}]}',
  ]
  for (const yaml of right) assert.deepEqual(judge([yaml]).problems, [], yaml)
})

test('configurations of one domain are merged and validated together with mergeDomainConfigs', () => {
  const files = [`{domain: d, descriptors: [{key: a}]}`, `{domain: d, descriptors: [{key: b}, {key: a}]}`]
  assert.deepEqual(judge(files, { ...asFiles, mergeDomainConfigs: true }).problems, [
    duplicate('b.yaml', 'd.a', 'descriptors[1]', list),
  ])
})

test('paths have the spelling of the configuration', () => {
  const yaml = '{domain: d, descriptors: [{key: k, share_threshold: true, rate_limit: {unit: x}}]}'
  const judged = judge([yaml], { ...asFiles, spelling: 'camel' })
  assert.deepEqual(judged.problems, [
    `a.yaml: invalid rate limit unit 'x' (at ${list}.rateLimit.unit; allowed: ${unitNames})`,
    cannotShare('a.yaml', 'k', `${list}.shareThreshold`),
  ])
  assert.deepEqual(judged.warnings, [
    'a.yaml: requestsPerUnit is left out, which counts as 0: every request is over the limit ' +
      `(at ${list}.rateLimit.requestsPerUnit; allowed: a whole number from 0 to 4294967295)`,
  ])
})

/** Keys and values of siblings, and the numbers of the pair that can be confused. */
const spellings: readonly (readonly [siblings: string, pair: string])[] = [
  ['a, b', ''],
  ['a, ab', ''],
  ['a, a_b', '1 0'],
  ['a_b, a', '0 1'],
  ['a=b_c, a_b=d', ''],
  ['a=b_c, a_b', '1 0'],
  ['a=x_c, a_b', ''],
  ['a=b_*, a_b=c', '1 0'],
  ['a=*, a_b=c', '1 0'],
  ['a=x*, a_b', ''],
  ['a=b, a_b=c', ''],
  ['a=b_x, a_b=*', '1 0'],
  ['a, a_b=c, a_b_c=d, a_x=1', '1 0'],
]

test('siblings whose requests can have the same spelling are a warning', () => {
  for (const [siblings, pair] of spellings) {
    const descriptors = siblings.split(', ').map(text => {
      const [key = '', value = ''] = text.split('=')
      return `{key: ${key}, value: "${value}"}`
    })
    const { problems, warnings } = judge([`{domain: d, descriptors: [${descriptors.join(', ')}]}`])
    assert.deepEqual(problems, [], siblings)
    if (pair === '') assert.deepEqual(warnings, [], siblings)
    else {
      const [longer, shorter] = pair.split(' ')
      assert.match(warnings[0] ?? '', /can spell the same cache key/, siblings)
      assert.ok(warnings[0]?.includes(`descriptors[${shorter}]`), `${siblings}: ${warnings[0]}`)
      assert.ok(warnings[0]?.endsWith(`(at descriptors[${longer}])`), `${siblings}: ${warnings[0]}`)
    }
  }
})

function nested(depth: number): RateLimitRule {
  const modes = { shadowMode: false, detailedMetric: false, quotaMode: false, valueToMetric: false }
  let descriptor: RateLimitRule = { key: 'k', value: '', ...modes, shareThreshold: false, descriptors: [] }
  for (let level = 1; level < depth; level++) descriptor = { ...descriptor, descriptors: [descriptor] }
  return descriptor
}

test('the depth of nested descriptors is limited', () => {
  const problemsAt = (depth: number) =>
    validateDomains([{ name: 'deep', domain: 'd', descriptors: [nested(depth)] }], asFiles).problems
  assert.deepEqual(problemsAt(maxDescriptorDepth), [])
  assert.match(problemsAt(maxDescriptorDepth + 1)[0]?.message ?? '', /more than 64 levels deep/)
  assert.equal(problemsAt(100_000).length, 1)
})

test('requests per unit beyond 32 bits, or with a fraction, are rejected from any source', () => {
  for (const requestsPerUnit of [-1, 0.5, 2 ** 32, Number.NaN]) {
    const rateLimit = { unit: 'day', requestsPerUnit, unlimited: false, name: '', replaces: [] }
    const config = { name: 'n', domain: 'd', descriptors: [{ ...nested(1), rateLimit }] }
    assert.equal(
      validateDomains([config], asFiles).problems[0]?.message,
      `requests_per_unit cannot be ${requestsPerUnit}`,
    )
  }
})

test('problems are reported up to a limit, and hostile keys cost no time', () => {
  const many = Array.from({ length: 50_000 }, () => ({ ...nested(1), key: '' }))
  const longKeys = Array.from({ length: 1000 }, (_, index) => ({ ...nested(1), key: '_'.repeat(index + 1) }))
  const exact = longKeys.map(descriptor => ({ ...descriptor, value: 'x' }))
  for (const [descriptors, expected] of [
    [many, maxFindingsOfKind + 1],
    [longKeys, 0],
    [exact, 0],
  ] as const) {
    let count = 0
    const tookMs = measureCpuMs(() => {
      count = validateDomains([{ name: 'n', domain: 'd', descriptors }], asFiles).problems.length
    })
    assert.equal(count, expected)
    assert.ok(tookMs < maxHostileCpuMs, `it took ${tookMs} ms`)
  }
})
