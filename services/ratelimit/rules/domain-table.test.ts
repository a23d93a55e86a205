import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { listLimits, openDomain } from './compile.ts'
import { compileDomain } from './compile-domain.ts'
import { field, findRecord, none, readTextAt, readWord, recordCount, topLevel } from './domain-table.ts'
import { match } from './match.ts'
import type { RateLimitRule } from './model.ts'
import { parseConfig } from './testing/rules-of-yaml.ts'

const word = fc.oneof(fc.constantFrom('a', 'ab', 'b', 'ключ', '🚀', '\ud800'), fc.string({ maxLength: 3 }))
const place = fc.record({ key: word, value: fc.oneof(fc.constant(''), word) })

function descriptorOf({ key, value }: { key: string; value: string }): RateLimitRule {
  const modes = { shadowMode: false, detailedMetric: false, quotaMode: false }
  return { key, value, ...modes, valueToMetric: false, shareThreshold: false, descriptors: [] }
}

/** Distinct keys and values without wildcards. */
const places = fc
  .uniqueArray(place, { selector: ({ key, value }) => JSON.stringify([key, value]), maxLength: 100 })
  .map(list => list.filter(({ key, value }) => key !== '' && !`${key}${value}`.includes('*')))

test('a rule is found only by its level, key and value', () => {
  fc.assert(
    fc.property(places, fc.array(place, { maxLength: 50 }), (added, asked) => {
      const [first, ...others] = added
      const top =
        first === undefined ? [] : [{ ...descriptorOf(first), descriptors: others.map(descriptorOf) }]
      const table = compileDomain('d', [{ name: 'd', domain: 'd', descriptors: top }])
      assert.equal(recordCount(table), added.length)
      const nameOf = (level: number, key: string, value: string) => JSON.stringify([level, key, value])
      const expected = new Map(
        added.map(({ key, value }, record) => [nameOf(record === 0 ? topLevel : 2, key, value), record]),
      )
      for (const { key, value } of [...added, ...asked]) {
        for (const level of [topLevel, 2, 3]) {
          const found = findRecord(table, level, key, value)
          assert.equal(found, expected.get(nameOf(level, key, value)) ?? none)
          if (found === none) continue
          assert.equal(readTextAt(table, readWord(table, found, field.key)), key)
          assert.equal(readTextAt(table, readWord(table, found, field.value)), value)
        }
      }
    }),
  )
})

test('a text of any length is kept unchanged', () => {
  const value = `${'long '.repeat(20_000)}é\ud800`
  const descriptors = [descriptorOf({ key: 'k', value })]
  const table = compileDomain('d', [{ name: 'd', domain: 'd', descriptors }])
  assert.equal(readTextAt(table, readWord(table, 0, field.value)), value)
})

const everyField = `
domain: d
descriptors:
  - key: k
    value: v
    shadow_mode: true
    quota_mode: true
    metadata: {__proto__: {list: [1, null, true]}, half: "\\uD800"}
    rate_limit: {unit: hour, requests_per_unit: 4294967295, name: n, replaces: [{name: other}]}
  - {key: w, value: "x*", rate_limit: {unit: day, requests_per_unit: 1}}
`

test('a table works the same after it was moved to another thread', () => {
  const table = compileDomain('d', [parseConfig(everyField)])
  const buffers = [table.records.buffer, table.slots.buffer, table.texts.buffer] as ArrayBuffer[]
  const received = structuredClone(table, { transfer: buffers })
  assert.equal(table.records.length, 0)
  const rules = { domains: new Map([['d', openDomain(received, { attach: name => name })]]) }
  assert.deepEqual(
    [...listLimits(rules)],
    [
      {
        name: 'n',
        fullKey: 'd.k_v',
        statName: 'd.k_v',
        requestsPerUnit: 4294967295,
        unit: 'hour',
        unitSeconds: 3600,
        unlimited: false,
        shadowMode: true,
        quotaMode: true,
        replaces: ['other'],
        metadata: JSON.parse('{"__proto__":{"list":[1,null,true]},"half":"\\ud800"}'),
      },
      {
        name: '',
        fullKey: 'd.w_x*',
        statName: 'd.w_x*',
        requestsPerUnit: 1,
        unit: 'day',
        unitSeconds: 86_400,
        unlimited: false,
        shadowMode: false,
        quotaMode: false,
        replaces: [],
        metadata: undefined,
      },
    ],
  )
  assert.equal(match(rules, 'd', [{ key: 'w', value: 'xyz' }])?.limit.stats, 'd.w_x*')
})

test('the statistics of a limit are created once, at its first request', () => {
  const attached: string[] = []
  const attach = (name: string) => {
    attached.push(name)
    return name
  }
  const rules = {
    domains: new Map([['d', openDomain(compileDomain('d', [parseConfig(everyField)]), { attach })]]),
  }
  assert.deepEqual(attached, [])
  for (let time = 0; time < 2; time++) match(rules, 'd', [{ key: 'k', value: 'v' }])
  assert.deepEqual(attached, ['d.k_v'])
})
