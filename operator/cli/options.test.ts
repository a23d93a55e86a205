import assert from 'node:assert/strict'
import { test } from 'node:test'
import { UsageError } from './command.ts'
import { folderOptions, parseFormat, parseOptions, parseSeconds } from './options.ts'

const isUsageError = (pattern: RegExp) => (error: unknown) => {
  assert.ok(error instanceof UsageError)
  assert.match(error.message, pattern)
  return true
}

test('options are taken in their long and their short form', () => {
  const { values } = parseOptions(['-f', 'limits', '--output=json'], folderOptions)
  assert.deepEqual({ ...values }, { file: 'limits', output: 'json', 'state-dir': '.tollway' })
})

test('what is not understood is named', () => {
  assert.throws(() => parseOptions(['--fil', 'a'], folderOptions), isUsageError(/--fil/))
  assert.throws(() => parseOptions(['limits'], folderOptions), isUsageError(/limits/))
  assert.throws(() => parseOptions(['-f'], folderOptions), isUsageError(/-f.*argument missing/))
  assert.deepEqual(parseOptions(['limits'], folderOptions, true).positionals, ['limits'])
})

test('a format is one of three', () => {
  assert.equal(parseFormat(undefined, 'table'), 'table')
  assert.equal(parseFormat('yaml', 'table'), 'yaml')
  assert.throws(() => parseFormat('xml', 'table'), isUsageError(/-o xml: must be one of table, yaml, json/))
})

test('seconds are a number, and not too many', () => {
  assert.equal(parseSeconds('--wait', '10'), 10_000)
  assert.equal(parseSeconds('--wait', '0.5'), 500)
  for (const text of ['abc', '', '-1', '1e3', 'Infinity', '1s', '86401']) {
    assert.throws(() => parseSeconds('--wait', text), isUsageError(/^--wait .*: must be a number of seconds/))
  }
})
