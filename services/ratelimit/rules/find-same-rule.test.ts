import assert from 'node:assert/strict'
import { test } from 'node:test'
import { field, hasFlag, none, readText, recordCount, ruleFlag } from './domain-table.ts'
import { createRuleFinder } from './find-same-rule.ts'
import { compileRules } from './testing/rules-of-yaml.ts'

const limit = 'rate_limit: {unit: minute, requests_per_unit: 1}'

function tableOf(rules: string) {
  return compileRules(`{domain: shop, descriptors: [${rules}]}`).domains.get('shop')?.table ?? assert.fail()
}

test('a rule is found by its keys and values, at any place of another version', () => {
  const rules = [
    `{key: user, ${limit}}`,
    `{key: user, value: bob, ${limit}, descriptors: [{key: path, ${limit}}, {key: path, value: "/a*", ${limit}}]}`,
    `{key: user, value: "b*", ${limit}}`,
    `{key: user, value: "*ob", ${limit}}`,
    `{key: "us*", ${limit}}`,
  ]
  const before = tableOf(rules.join(', '))
  const after = tableOf([...rules, `{key: other, ${limit}}`].reverse().join(', '))
  const limits = Array.from({ length: recordCount(before) }, (_, record) => record).filter(record =>
    hasFlag(before, record, ruleFlag.hasLimit),
  )
  assert.equal(limits.length, 7)
  const [find, findBack] = [createRuleFinder(after, before), createRuleFinder(before, after)]
  for (const record of limits) {
    const same = find(record)
    for (const part of [field.key, field.value]) {
      assert.equal(readText(after, same, part), readText(before, record, part))
    }
    assert.equal(findBack(same), record)
  }
})

test('a rule that another version lacks is not found, also if other rules match the same requests', () => {
  const before = tableOf(`{key: user, value: "b*", ${limit}}, {key: a, descriptors: [{key: b, ${limit}}]}`)
  const after = tableOf(`{key: user, ${limit}}, {key: user, value: bob, ${limit}}, {key: a, ${limit}}`)
  const find = createRuleFinder(after, before)
  for (let record = 0; record < recordCount(before); record++) {
    if (hasFlag(before, record, ruleFlag.hasLimit)) assert.equal(find(record), none)
  }
})
