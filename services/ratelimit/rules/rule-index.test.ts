import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import type { Rule } from './compile.ts'
import { createRuleIndex } from './rule-index.ts'

const place = fc.record({
  level: fc.integer({ min: 1, max: 4 }),
  key: fc.constantFrom('a', 'ab', 'b', 'ключ', ''),
  value: fc.oneof(fc.constantFrom('b', 'bb', 'ab', '🚀'), fc.string({ maxLength: 3 })),
})

test('a rule is found by its level, key and value, the last of several', () => {
  fc.assert(
    fc.property(fc.array(place, { maxLength: 200 }), fc.array(place, { maxLength: 50 }), (added, asked) => {
      const index = createRuleIndex<undefined>()
      const nameOf = (one: (typeof added)[number]) => JSON.stringify([one.level, one.key, one.value])
      const expected = new Map<string, Rule<undefined>>()
      for (const one of added) {
        const rule = { ...one } as Rule<undefined>
        index.add(rule)
        expected.set(nameOf(one), rule)
      }
      for (const one of [...added, ...asked]) {
        assert.equal(index.find(one.level, one.key, one.value), expected.get(nameOf(one)))
      }
    }),
  )
})
