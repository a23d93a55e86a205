import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { parseBody } from './read-body.ts'

const readJson = (text: string) => parseBody('application/json', Buffer.from(text))

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
  ['[1,]', /not JSON/],
  [`${'['.repeat(32)}${']'.repeat(32)}`, null],
  [`${'['.repeat(33)}${']'.repeat(33)}`, /deeper than 32/],
]

test('duplicate names and too deep nesting are rejected', () => {
  for (const [text, fault] of cases) {
    const read = readJson(text)
    if (fault === null) assert.deepEqual(read.ok && read.value.value, JSON.parse(text))
    else assert.match(read.ok ? 'accepted' : read.rejection.message, fault, text)
  }
})

test('the output of JSON.stringify is parsed unchanged', () => {
  fc.assert(
    fc.property(fc.jsonValue({ maxDepth: 6 }), value => {
      const text = JSON.stringify(value)
      const read = readJson(text)
      assert.deepEqual(read.ok && read.value.value, JSON.parse(text))
    }),
  )
})
