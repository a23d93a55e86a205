import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import type { JsonObject } from '@tollway/chassis/json.ts'
import { compile } from '@tollway/ratelimit/rules/compile.ts'
import { type DescriptorEntry, match } from '@tollway/ratelimit/rules/match.ts'
import type { RateLimitDomain, RateLimitRule } from '@tollway/ratelimit/rules/model.ts'
import { validateDomains } from '@tollway/ratelimit/rules/validate.ts'
import { parseYaml } from '@tollway/ratelimit/rules/yaml/parse-yaml.ts'
import fc from 'fast-check'
import { CORE_SCHEMA, dump, load } from 'js-yaml'
import { goldenTests } from '../../../test/support/golden.ts'
import { convertConfigurations, resourceName } from './convert-configuration.ts'
import { translateRateLimitConfig } from './translate-rate-limit-config.ts'

const folder = join(import.meta.dirname, 'testdata/convert')

function configOf(text: string): RateLimitDomain {
  const parsed = parseYaml('config.yaml', text)
  assert.ok('value' in parsed, JSON.stringify(parsed))
  return parsed.value
}

goldenTests(folder, text => convertConfigurations([configOf(text)], 'shop')[0])

/** Returns the domain that an operator reads from the manifest into which the configuration is converted. */
function throughManifest(config: RateLimitDomain): RateLimitDomain {
  const [manifest] = convertConfigurations([config], 'default')
  const made = translateRateLimitConfig('default/a', load(dump(manifest), { schema: CORE_SCHEMA }))
  assert.ok('value' in made, JSON.stringify(made))
  return made.value
}

/**
 * Returns requests that match each rule or differ in one value, and some with a descriptor below the last
 * rule.
 */
function requestsFor(
  rules: readonly RateLimitRule[],
  above: readonly DescriptorEntry[] = [],
): (readonly DescriptorEntry[])[] {
  const stray = { key: 'stray', value: 'x' }
  const here = rules.flatMap(({ key, value, descriptors }) =>
    [value.replaceAll('*', 'any'), value.replaceAll('*', ''), 'other'].flatMap(found => {
      const entries = [...above, { key, value: found }]
      return [entries, ...requestsFor(descriptors, entries)]
    }),
  )
  return [...here, [...above, stray]]
}

function assertDecidesTheSame(source: RateLimitDomain): void {
  const converted = throughManifest(source)
  const options = { mergeDomainConfigs: false, attach: (name: string) => name }
  const before = compile([source], options)
  const after = compile([converted], options)
  for (const entries of requestsFor(source.descriptors)) {
    const found = match(before, source.domain, entries, options.attach)
    const now = match(after, source.domain, entries, options.attach)
    // The number of an unlimited rule has no meaning, so it is not compared.
    const meant = found?.limit.unlimited ? { ...found, limit: { ...found.limit, requestsPerUnit: 0 } } : found
    assert.deepEqual(now, meant, JSON.stringify(entries))
  }
}

for (const name of readdirSync(folder).filter(file => file.endsWith('.in.yaml'))) {
  test(`${name} decides the same as its resource`, () => {
    assertDecidesTheSame(configOf(readFileSync(join(folder, name), 'utf8')))
  })
}

const limit = fc.oneof(
  fc.record({
    unit: fc.constantFrom('second', 'MINUTE', 'Year'),
    requestsPerUnit: fc.option(fc.nat(0xffffffff), { nil: undefined }),
    unlimited: fc.constant(false),
    name: fc.constantFrom('', 'one'),
    replaces: fc.subarray(['two', 'three']),
  }),
  fc.record({
    unit: fc.constantFrom('', 'fortnight'),
    requestsPerUnit: fc.option(fc.nat(9), { nil: undefined }),
    unlimited: fc.constant(true),
    name: fc.constantFrom('', 'one'),
    replaces: fc.constant([]),
  }),
)

/** Generates sibling rules, nested to at most this number of levels. */
function rules(levels: number): fc.Arbitrary<RateLimitRule[]> {
  if (levels === 0) return fc.constant([])
  const rule = fc.record({
    key: fc.constantFrom('user', 'path', 'on', '1e3'),
    value: fc.constantFrom('', 'alice', 'yes', '0x10', '/a*', '*', ' a: "b"\n'),
    rateLimit: fc.option(limit, { nil: undefined }),
    shadowMode: fc.boolean(),
    detailedMetric: fc.boolean(),
    quotaMode: fc.boolean(),
    valueToMetric: fc.boolean(),
    shareThreshold: fc.boolean(),
    metadata: fc.option(
      fc.dictionary(fc.string(), fc.jsonValue({ maxDepth: 1 }), { maxKeys: 2, noNullPrototype: true }),
    ),
    descriptors: rules(levels - 1),
  })
  return fc.uniqueArray(
    rule.map(({ rateLimit, metadata, shareThreshold, ...rest }) => ({
      ...rest,
      ...(rateLimit && { rateLimit }),
      ...(metadata && { metadata: metadata as JsonObject }),
      shareThreshold: shareThreshold && rest.value.includes('*'),
    })),
    { selector: ({ key, value }) => `${key}_${value}`, maxLength: 3 },
  )
}

test('a resource converted from any configuration gives the same decisions', () => {
  const config = fc.record({
    name: fc.constant('config.yaml'),
    domain: fc.string({ minLength: 1, maxLength: 20 }),
    descriptors: rules(3),
  })
  fc.assert(
    fc.property(config, source => {
      const { problems } = validateDomains([source], { mergeDomainConfigs: false, spelling: 'snake' })
      fc.pre(problems.length === 0)
      assertDecidesTheSame(source)
    }),
  )
})

test('names are valid in Kubernetes, and no two resources share one', () => {
  const table = [
    ['mongo_cps', 'mongo-cps'],
    ['Left Out!', 'left-out'],
    ['--', 'domain'],
    ['ümlaut', 'mlaut'],
    ['a'.repeat(70), 'a'.repeat(63)],
    [`${'a'.repeat(62)}-b`, 'a'.repeat(62)],
  ] as const
  for (const [domain, name] of table) assert.equal(resourceName(domain), name)
  const domains = ['a_b', 'a-b', 'A b', `${'c'.repeat(64)}`, `${'c'.repeat(65)}`]
  const configs = domains.map(domain => ({ name: 'x', domain, descriptors: [] }))
  const names = convertConfigurations(configs, 'shop').map(({ metadata }) => metadata.name)
  assert.deepEqual(names, ['a-b', 'a-b-2', 'a-b-3', 'c'.repeat(63), `${'c'.repeat(61)}-2`])
})
