import assert from 'node:assert/strict'
import { test } from 'node:test'
import { helpText, readOptions } from './options.ts'

const names = ['refused', 'drain']
const read = (...args: string[]) => readOptions(args, {}, names, 42)

test('without options all cases run, in the long form, with a seed from the clock', () => {
  assert.deepEqual(read(), {
    names: [],
    short: false,
    markdown: false,
    help: false,
    seed: 42,
    callsPerSecond: 2000,
    holdSeconds: 20,
  })
  const { names, seed, callsPerSecond, holdSeconds } = read(
    'drain',
    '--seed',
    '7',
    '--rate',
    '10',
    '--hold',
    '60',
  )
  assert.deepEqual([names, seed, callsPerSecond, holdSeconds], [['drain'], 7, 10, 60])
  assert.equal(readOptions([], { SHORT: '1' }, names, 42).holdSeconds, 1)
})

const wrong: readonly (readonly [args: readonly string[], message: RegExp])[] = [
  [['other'], /unknown case 'other': expected refused, drain/],
  [['--seed', 'x'], /--seed is 'x'; it must be a whole number from 1 to 2147483648/],
  [['--rate', '0'], /--rate is '0'/],
  [['--hold', '3601'], /--hold is '3601'; .* from 1 to 3600/],
  [['--fast'], /--fast/],
]
for (const [args, message] of wrong) {
  test(`the option ${args.join(' ')} is rejected`, () => assert.throws(() => read(...args), message))
}

test('the help lists every case', () => {
  const text = helpText([{ name: 'refused', title: 'connections are refused' }])
  assert.match(text, /^ {2}refused +connections are refused$/m)
})
