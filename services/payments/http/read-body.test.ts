import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { maxJsonDepth, readJson } from './read-body.ts'

const cases: readonly (readonly [text: string, fault: RegExp | null])[] = [
  ['{"a":1,"b":{"a":2},"c":[{"a":3},{"a":4}]}', null],
  ['{"a":1,"a":2}', /a name twice/],
  ['{"a":1,"\\u0061":2}', /a name twice/],
  ['{"x":[{"a":1,"b":"}","a":2}]}', /a name twice/],
  ['{"a":{"b":1},"a":2}', /a name twice/],
  ['["a","a",{"a":"a"}]', null],
  ['{"\\"":1,"\\\\":2}', null],
  ['{"__proto__":1,"__proto__":2}', /a name twice/],
  ['{"a":1', /not JSON/],
  ['', /not JSON/],
  ['[1,]', /not JSON/],
  [`${'['.repeat(maxJsonDepth)}${']'.repeat(maxJsonDepth)}`, null],
  [`${'['.repeat(maxJsonDepth + 1)}${']'.repeat(maxJsonDepth + 1)}`, /deeper than 32/],
]

test('duplicate names and too deep nesting are rejected', () => {
  for (const [text, fault] of cases) {
    const read = readJson(text)
    if (fault === null) assert.deepEqual(read, { value: JSON.parse(text) })
    else assert.match('fault' in read ? read.fault : 'accepted', fault, text)
  }
})

test('the output of JSON.stringify is parsed unchanged', () => {
  fc.assert(
    fc.property(fc.jsonValue({ maxDepth: 6 }), value => {
      const text = JSON.stringify(value)
      assert.deepEqual(readJson(text), { value: JSON.parse(text) })
    }),
  )
})
