import assert from 'node:assert/strict'
import { test } from 'node:test'
import { UsageError } from '../command.ts'
import { nearestName } from './nearest-name.ts'
import { oneOf, optional, seconds, texts, toggle, wholeNumber } from './option.ts'
import { parseOptions } from './parse-options.ts'
import { folderOptions, outputOption } from './shared-options.ts'

const isUsageError = (pattern: RegExp) => (error: unknown) => {
  assert.ok(error instanceof UsageError)
  assert.match(error.message, pattern)
  return true
}

const about = { help: 'a help' }

test('options have a long form, a short form and a default', () => {
  const { values } = parseOptions(['-f', 'limits', '--output=json'], {
    ...folderOptions,
    output: outputOption(),
  })
  assert.deepEqual({ ...values }, { file: 'limits', output: 'json', 'state-dir': '.tollway' })
})

test('the last value of a repeated option counts, except for options that collect their values', () => {
  const table = { wait: seconds(0, about), entries: texts({ ...about, placeholder: 'LIST' }) }
  const { values } = parseOptions(['--wait=1', '--entries', 'a', '--wait=2', '--entries=b'], table)
  assert.deepEqual({ ...values }, { wait: 2000, entries: ['a', 'b'] })
})

test('an unknown option is rejected with the nearest known one', () => {
  const table = { ...folderOptions, all: toggle(about) }
  assert.throws(
    () => parseOptions(['--fiel', 'a'], table),
    isUsageError(/^--fiel: there is no such option; did you mean --file\?$/),
  )
  assert.throws(
    () => parseOptions(['--qqqqq'], table),
    isUsageError(/^--qqqqq: there is no such option; there are --file, --state-dir, --all$/),
  )
  assert.throws(() => parseOptions(['-x'], table), isUsageError(/^-x: there is no such option; there are/))
  assert.throws(() => parseOptions(['limits'], table), isUsageError(/limits/))
  assert.throws(() => parseOptions(['-f'], table), isUsageError(/-f.*argument missing/))
  assert.deepEqual(parseOptions(['limits'], table, true).positionals, ['limits'])
})

test('a mistyped name has a nearest name only if they are similar', () => {
  const names = ['state-dir', 'output', 'operator', 'wait']
  assert.equal(nearestName('ouptut', names), 'output')
  assert.equal(nearestName('statedir', names), 'state-dir')
  assert.equal(nearestName('op', names), 'operator')
  assert.equal(nearestName('zzz', names), undefined)
  assert.equal(nearestName('', names), undefined)
  assert.equal(nearestName('w'.repeat(1000), names), undefined)
})

test('a value that is not allowed is rejected with the allowed ones', () => {
  const table = {
    output: outputOption(),
    only: oneOf(['a', 'b'], about),
    hits: wholeNumber(1, { ...about, min: 0, max: 10 }),
    every: optional(seconds(0, { ...about, min: 0.1 })),
  }
  assert.equal(parseOptions([], table).values.every, undefined)
  for (const [args, message] of [
    [['-o', 'xml'], /^--output xml: must be one of table, yaml, json$/],
    [['--only', 'c'], /^--only c: must be one of a, b$/],
    [['--hits', '11'], /^--hits 11: must be a whole number from 0 to 10$/],
    [['--hits', '1e1'], /^--hits 1e1: must be a whole number/],
    [['--every', '0.05'], /^--every 0.05: must be a number of seconds from 0.1 to 86400$/],
  ] as const)
    assert.throws(() => parseOptions(args, table), isUsageError(message))
})

test('an option of seconds accepts only numbers up to its maximum', () => {
  const table = { wait: seconds(0, about) }
  assert.equal(parseOptions(['--wait', '10'], table).values.wait, 10_000)
  assert.equal(parseOptions(['--wait', '0.5'], table).values.wait, 500)
  for (const text of ['abc', '', '-1', '1e3', 'Infinity', '1s', '86401'])
    assert.throws(
      () => parseOptions([`--wait=${text}`], table),
      isUsageError(/^--wait .*: must be a number of seconds/),
    )
})
