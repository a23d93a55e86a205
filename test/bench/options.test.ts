import assert from 'node:assert/strict'
import { test } from 'node:test'
import { cases } from './cases.ts'
import { helpText, readOptions } from './options.ts'

const read = (text: string, env = {}) =>
  readOptions(
    text.split(' ').filter(word => word !== ''),
    env,
    ['hot-key'],
  )

test('without arguments all cases are measured in the long form', () => {
  const expected = { names: [], short: false, markdown: false, help: false, rounds: 5, edits: 200 }
  assert.deepEqual(read(''), expected)
})

test('the short form has fewer rounds, and can be selected in the environment', () => {
  assert.equal(read('--short hot-key').rounds, 3)
  assert.equal(read('', { SHORT: '1' }).short, true)
  assert.equal(read('--rounds 7', { SHORT: '1' }).rounds, 7)
})

test('an invalid argument is reported with the allowed values', () => {
  assert.throws(() => read('hotkey'), /there is no 'hotkey'; there are decisions, .*, hot-key/)
  assert.throws(() => read('--rounds 0'), /--rounds is '0'; it must be a whole number from 1 to 100/)
  assert.throws(() => read('--fast'), /--fast/)
})

test('the help names every case', () => {
  const help = helpText(cases)
  for (const { name, title } of cases) assert.ok(help.includes(`${name} `) && help.includes(title), name)
})
