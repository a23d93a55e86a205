import assert from 'node:assert/strict'
import { test } from 'node:test'
import { oncePerObject } from './once-per-object.ts'

test('a result is computed once for an object, also if it is undefined, and anew for an equal one', () => {
  const seen: object[] = []
  const compute = oncePerObject((key: { readonly a: number }) => {
    seen.push(key)
    return key.a === 0 ? undefined : { of: key.a }
  })
  const [one, equal, none] = [{ a: 1 }, { a: 1 }, { a: 0 }]
  assert.equal(compute(one), compute(one))
  assert.notEqual(compute(one), compute(equal))
  assert.deepEqual([compute(none), compute(none)], [undefined, undefined])
  assert.deepEqual(seen, [one, equal, none])
})
