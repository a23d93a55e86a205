import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { UsageError } from './command.ts'
import {
  choice,
  numberInRange,
  optionalText,
  seconds,
  textOr,
  texts,
  toggle,
  withoutDefault,
} from './option.ts'
import { parseOptions } from './parse-options.ts'

const about = { help: 'a help' }
const table = {
  file: optionalText({ ...about, short: 'f', placeholder: 'FOLDER' }),
  'state-dir': textOr('.tollway', { ...about, placeholder: 'DIR' }),
  output: choice(['table', 'yaml', 'json'], { ...about, short: 'o' }),
  entries: texts({ ...about, short: 'e', placeholder: 'LIST' }),
  wait: seconds(0, about),
  every: withoutDefault(seconds(0, { ...about, min: 0.1 })),
  hits: numberInRange(1, { ...about, min: 0, max: 10 }),
  by: optionalText({ ...about, placeholder: 'N' }),
  all: toggle({ ...about, short: 'a' }),
}
const defaults = {
  ...{ file: undefined, 'state-dir': '.tollway', output: 'table', entries: [], wait: 0, every: undefined },
  ...{ hits: 1, by: undefined, all: false },
}

describe('parseOptions', () => {
  for (const [line, expected] of [
    ['', {}],
    ['-f limits --output=json', { file: 'limits', output: 'json' }],
    ['-o json', { output: 'json' }],
    ['-o=json', { output: 'json' }],
    ['-ojson', { output: 'json' }],
    ['--entries =a -e==b -e=user=c', { entries: ['=a', '=b', 'user=c'] }],
    ['--wait=1 --wait=2', { wait: 2000 }],
    ['--wait 10', { wait: 10_000 }],
    ['--wait 0.5', { wait: 500 }],
    ['--by -1', { by: '-1' }],
    ['--by=--all', { by: '--all' }],
    ['-a', { all: true }],
    ['--all=false', { all: false }],
    ['-af limits', { all: true, file: 'limits' }],
  ] as const)
    test(`reads "${line}"`, () => {
      const args = line.split(' ').filter(arg => arg !== '')
      assert.deepEqual(parseOptions(args, table).values, { ...defaults, ...expected })
    })

  for (const [line, message] of [
    ['--fiel a', 'unknown option --fiel (did you mean --file?)'],
    ['--OUTPUT json', 'unknown option --OUTPUT (did you mean --output?)'],
    ['--ent a=b', 'unknown option --ent (did you mean --entries?)'],
    ['--yes', 'unknown option --yes'],
    ['-x', 'unknown option -x'],
    ['-merge', 'unknown option -m'],
    ['--toString', 'unknown option --toString'],
    ['limits', 'unexpected argument "limits"'],
    ['-f', 'option -f requires a value'],
    ['--file --all', 'option --file requires a value; a value that begins with "-" is written --file=--all'],
    ['--output xml', '--output xml: must be one of table, yaml, json'],
    ['--hits 11', '--hits 11: must be a whole number from 0 to 10'],
    ['--hits 1e1', '--hits 1e1: must be a whole number from 0 to 10'],
    ['--every 0.05', '--every 0.05: must be a number of seconds from 0.1 to 86400'],
    ['--all=maybe', '--all maybe: must be true or false'],
    ...['abc', '', '-1', '1e3', 'Infinity', '1s', '86401'].map(
      found => [`--wait=${found}`, `--wait ${found}: must be a number of seconds from 0 to 86400`] as const,
    ),
  ] as const)
    test(`rejects "${line}"`, () => {
      assert.throws(() => parseOptions(line.split(' '), table), new UsageError(message))
    })

  test('returns the other arguments of a command that has operands', () => {
    const { values, positionals } = parseOptions(['a', '-f', 'x', '--', '--b'], table, true)
    assert.deepEqual([values.file, positionals], ['x', ['a', '--b']])
  })
})
