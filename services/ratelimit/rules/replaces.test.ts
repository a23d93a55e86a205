import assert from 'node:assert/strict'
import { test } from 'node:test'
import { match } from './match.ts'
import { findReplacedNames } from './replaces.ts'
import { compileRules, parseEntries, splitLines } from './testing/rules-of-yaml.ts'

const rules = compileRules(`
domain: d
descriptors:
  - {key: a, rate_limit: {name: a, unit: day, requests_per_unit: 1}}
  - {key: b, rate_limit: {name: b, unit: day, requests_per_unit: 1, replaces: [{name: a}]}}
  - {key: c, rate_limit: {name: c, unlimited: true, replaces: [{name: b}, {name: x}]}}
  - {key: d, rate_limit: {unit: day, requests_per_unit: 1}}
`)

const requests = `
a      ->
a, d   ->
a, b   -> a
b, a   -> a
a, b, c -> a b x
c, d   -> b x
none, b -> a
`

test('7: a matched limit removes those that it names, even if it is unlimited or removed itself', () => {
  for (const line of splitLines(requests)) {
    const [keys = '', expected] = line.split('->').map(part => part.trim())
    const matches = keys.split(', ').map(key => match(rules, 'd', parseEntries(`${key}=1`)))
    assert.equal([...findReplacedNames(matches)].sort().join(' '), expected, line)
  }
})
