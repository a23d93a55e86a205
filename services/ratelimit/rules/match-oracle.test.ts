import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { compile } from './compile.ts'
import { explain } from './explain.ts'
import { type DescriptorEntry, match } from './match.ts'
import { type RateLimitRule, toFinalKey } from './model.ts'
import { validateDomains } from './validate.ts'
import { compileWildcard, matchesWildcard } from './wildcard.ts'

/** A second implementation of the matching rules, as simple as possible: slow, and without preparation. */
function naiveMatch(top: readonly RateLimitRule[], entries: readonly DescriptorEntry[]) {
  const path: RateLimitRule[] = []
  let level = top
  for (const entry of entries) {
    const found =
      level.find(({ key, value }) => value !== '' && key === entry.key && value === entry.value) ??
      level.find(descriptor => naiveWildcard(descriptor, entry)) ??
      level.find(({ key, value }) => value === '' && key === entry.key)
    if (found === undefined) return undefined
    path.push(found)
    level = found.descriptors
  }
  const rateLimit = path.at(-1)?.rateLimit
  return rateLimit && { rateLimit, baseKey: naiveBaseKey(path, entries), fullKey: naiveName(path, entries) }
}

function naiveWildcard(descriptor: RateLimitRule, entry: DescriptorEntry): boolean {
  const spelling = toFinalKey(descriptor)
  if (!spelling.includes('*')) return false
  if (!descriptor.key.includes('*') && descriptor.key !== entry.key) return false
  return naiveGlob(spelling, `${entry.key}_${entry.value}`)
}

function naiveGlob(pattern: string, text: string): boolean {
  const literal = pattern.split('*').map(part => part.replaceAll(/[^a-z]/g, character => `\\${character}`))
  return new RegExp(`^${literal.join('.*')}$`, 's').test(text)
}

function shares(descriptor: RateLimitRule): boolean {
  return descriptor.shareThreshold && toFinalKey(descriptor).includes('*')
}

function naivePattern(descriptor: RateLimitRule, entry: DescriptorEntry): string {
  const spelling = toFinalKey(descriptor)
  const start = `${entry.key}_`
  return spelling.startsWith(start) ? spelling.slice(start.length) : spelling
}

function naiveBaseKey(path: readonly RateLimitRule[], entries: readonly DescriptorEntry[]): string {
  const parts = path.map((descriptor, index) => {
    const entry = entries[index] ?? { key: '', value: '' }
    return `${entry.key}_${shares(descriptor) ? naivePattern(descriptor, entry) : entry.value}_`
  })
  return `d_${parts.join('')}`
}

function naiveName(path: readonly RateLimitRule[], entries: readonly DescriptorEntry[]): string {
  const parts = path.map((descriptor, index) => {
    const entry = entries[index] ?? { key: '', value: '' }
    const pattern = `${entry.key}_${naivePattern(descriptor, entry)}`
    if (path.at(-1)?.detailedMetric) {
      if (!path.some(shares)) return `${entry.key}_${entry.value}`
      return shares(descriptor) ? pattern : toFinalKey(entry)
    }
    if (!path.some(one => one.valueToMetric)) return toFinalKey(descriptor)
    const isWildcard = toFinalKey(descriptor).includes('*')
    const isExact = descriptor.key === entry.key && descriptor.value === entry.value && entry.value !== ''
    if (isExact) return toFinalKey(entry)
    if (isWildcard) return descriptor.valueToMetric && !shares(descriptor) ? toFinalKey(entry) : pattern
    return descriptor.valueToMetric ? toFinalKey(entry) : entry.key
  })
  return `d.${parts.join('.')}`
}

const rarely = fc.integer({ min: 0, max: 4 }).map(n => n === 0)
const keys = fc.constantFrom('a', 'b', 'a_b', 'a*', '*')
const values = fc.oneof(
  fc.constant(''),
  fc.string({ unit: fc.constantFrom('a', 'b', '_', '*'), maxLength: 4 }),
)
const rateLimits = fc
  .nat(1000)
  .map(requestsPerUnit => ({ unit: 'day', requestsPerUnit, unlimited: false, name: '', replaces: [] }))

/** Siblings with the same spelling are left out, since `validateDomains` rejects them. */
const levels = fc.letrec<{ level: readonly RateLimitRule[] }>(tie => ({
  level: fc.uniqueArray(
    fc
      .record({
        key: keys,
        value: values,
        rateLimit: fc.oneof({ weight: 3, arbitrary: rateLimits }, fc.constant(undefined)),
        flags: fc.tuple(rarely, rarely, rarely),
        descriptors: fc.oneof({ depthSize: 'small', maxDepth: 3 }, fc.constant([]), tie('level')),
      })
      .map(({ key, value, rateLimit, flags, descriptors }): RateLimitRule => {
        const [detailedMetric, valueToMetric, mayShare] = flags
        const shareThreshold = mayShare && toFinalKey({ key, value }).includes('*')
        const modes = { shadowMode: false, quotaMode: false, detailedMetric, valueToMetric, shareThreshold }
        return { key, value, ...modes, ...(rateLimit && { rateLimit }), descriptors }
      }),
    { selector: toFinalKey, maxLength: 8 },
  ),
})).level

const requests = fc.array(
  fc.record({
    key: fc.constantFrom('a', 'b', 'a_b', 'c', 'a*'),
    value: fc.string({ unit: fc.constantFrom('a', 'b', '_', '*'), maxLength: 5 }),
  }),
  { maxLength: 4 },
)

test('match and explain agree with the simple implementation of the rules', () => {
  let matched = 0
  const property = fc.property(levels, fc.array(requests, { maxLength: 20 }), (descriptors, asked) => {
    const config = { name: 'test', domain: 'd', descriptors }
    assert.deepEqual(validateDomains([config], { mergeDomainConfigs: false, spelling: 'snake' }).problems, [])
    const rules = compile([config], { mergeDomainConfigs: false, attach: () => undefined })
    for (const entries of asked) {
      const found = match(rules, 'd', entries)
      const expected = naiveMatch(descriptors, entries)
      if (found !== undefined) matched += 1
      assert.equal(found?.limit.requestsPerUnit, expected?.rateLimit.requestsPerUnit)
      assert.equal(found?.baseKey, expected?.baseKey)
      assert.equal(found?.limit.fullKey, expected?.fullKey)
      const explained = explain(rules, 'd', entries)
      assert.equal(explained.baseKey, found?.baseKey)
      assert.equal(explained.limit?.fullKey, found?.limit.fullKey)
      assert.equal(explained.entries.length, entries.length)
    }
  })
  fc.assert(property, { seed: 1, numRuns: 3000 })
  assert.ok(matched > 1000, `only ${matched} requests matched, so the test covers too little`)
})

test('a wildcard matches the same texts as its regular expression', () => {
  const letters = fc.string({ unit: fc.constantFrom('a', 'b', '*'), maxLength: 8 })
  const texts = fc.string({ unit: fc.constantFrom('a', 'b'), maxLength: 12 })
  const property = fc.property(letters, texts, (pattern, text) => {
    if (!pattern.includes('*')) return
    assert.equal(matchesWildcard(compileWildcard(pattern), text), naiveGlob(pattern, text))
  })
  fc.assert(property, { seed: 2, numRuns: 20_000 })
})
