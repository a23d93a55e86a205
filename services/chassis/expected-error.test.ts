import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ExpectedError } from './expected-error.ts'

test('an expected error is logged as its message without a stack trace, and other errors with theirs', () => {
  const expected = new ExpectedError('no route matches')
  assert.equal(expected.message, 'no route matches')
  assert.ok(expected instanceof Error)
  assert.doesNotMatch(expected.stack ?? '', /\n\s+at /)
  assert.match(new Error('a defect').stack ?? '', /\n\s+at /)
})
