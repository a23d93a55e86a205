import assert from 'node:assert/strict'
import { test } from 'node:test'
import { formatProblem } from './problems.ts'

test('a problem is one line: its source, the text of the reference, and further details', () => {
  const problem = { source: 'a.yaml', path: '', message: "invalid rate limit unit 'foo'" }
  assert.equal(formatProblem(problem), "a.yaml: invalid rate limit unit 'foo'")
  assert.equal(
    formatProblem({ ...problem, path: 'x.unit' }),
    "a.yaml: invalid rate limit unit 'foo' (at x.unit)",
  )
  assert.equal(
    formatProblem({ ...problem, path: 'x.unit', allowed: 'day' }),
    "a.yaml: invalid rate limit unit 'foo' (at x.unit; allowed: day)",
  )
  assert.equal(
    formatProblem({ ...problem, allowed: 'day' }),
    "a.yaml: invalid rate limit unit 'foo' (allowed: day)",
  )
})

test('quoted values cannot break the line or overwrite it', () => {
  const problem = { source: 'a\n', path: '\u001b[2J', message: 'x\u0000\r\u2028\u202e' }
  assert.equal(formatProblem(problem), 'a\\u{a}: x\\u{0}\\u{d}\\u{2028}\\u{202e} (at \\u{1b}[2J)')
})
