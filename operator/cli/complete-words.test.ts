import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { temporaryFolder } from '../../test/support/temporary-folder.ts'
import { serveApi } from '../testing/serve-api.ts'
import { completeWords } from './complete-words.ts'
import { suggestNames } from './suggest-names.ts'
import { runTollway, tollway } from './tollway-program.ts'

async function complete(...words: string[]): Promise<readonly string[]> {
  let printed = ''
  const output = {
    print(text: string) {
      printed += text
    },
    printError: assert.fail,
  }
  assert.equal(await runTollway(['__complete', ...words], output), 0)
  return printed
    .trimEnd()
    .split('\n')
    .map(line => line.replace(/\t.*/, ''))
}

describe('completion', () => {
  for (const [words, expected] of [
    [['va'], ['validate', ':4']],
    [['nothing'], [':4']],
    [['nothing', ''], [':4']],
    [
      ['counters', 'r'],
      ['reset', 'raise', ':4'],
    ],
    [['counters', 'get', '--by'], [':4']],
    [
      ['counters', 'raise', '--by'],
      ['--by', ':4'],
    ],
    [
      ['counters', 'top', '--by', ''],
      ['rejected', 'hits', ':4'],
    ],
    [['counters', 'forget', '--'], [':4']],
    [
      ['status', '--w'],
      ['--wait', ':4'],
    ],
    [['status', '--wait', ''], [':4']],
    [
      ['status', '-o', ''],
      ['table', 'yaml', 'json', ':4'],
    ],
    [
      ['status', '--output=j'],
      ['--output=json', ':4'],
    ],
    [
      ['status', '-o', 'json', '--o'],
      ['--operator', ':4'],
    ],
    [['validate', '-f', 'x'], [':0']],
    [['validate', '--state-dir=x'], [':16']],
    [
      ['run', '--log-level', ''],
      ['debug', 'info', 'warn', 'error', ':4'],
    ],
    [['convert', 'x'], [':0']],
    [
      ['completion', ''],
      ['bash', 'zsh', 'fish', ':4'],
    ],
    [
      ['payments', 'dispute', 'w'],
      ['win', ':4'],
    ],
    [['try', '-f', '/missing', '-d', ''], [':4']],
  ] as const)
    test(`of "${words.join(' ')}" is ${expected.join(' ')}`, async () => {
      assert.deepEqual(await complete(...words), expected)
    })

  test('an option that repeats is suggested again, any other one only once', async () => {
    assert.ok((await complete('call', '-e', 'a=b', '--e')).includes('--entries'))
    assert.deepEqual(await complete('call', '--health', '--he'), ['--help', ':4'])
  })

  test('domains are those of the folder', async () => {
    const folder = temporaryFolder('completion')
    const config = (domain: string) =>
      `apiVersion: tollway.dev/v1alpha1\nkind: RateLimitConfig\nmetadata: {name: ${domain}}\nspec: {domain: ${domain}}\n`
    writeFileSync(join(folder, 'a.yaml'), `${config('shop')}---\n${config('search')}`)
    assert.deepEqual(await names('try', '-f', folder, '-d', 's'), ['search', 'shop'])
    assert.deepEqual(await names('try', `--file=${folder}`, '--domain=se'), ['--domain=search'])
  })

  test('domains and rules are those of the operator', async t => {
    const { url } = await serveApi(t)
    const operator = ['--operator', new URL(url).origin]
    assert.deepEqual(await names('counters', 'top', ...operator, '-d', ''), ['checkout', 'loans'])
    const rules = await names('counters', 'top', ...operator, '-d', 'checkout', '--rule', '')
    assert.deepEqual(rules, ['checkout.path', 'checkout.staff', 'checkout.user'])
  })
})

/** The time limit in tests. The default of 1 s may be too short on a busy machine. */
const patientMs = 60_000

async function names(...words: string[]): Promise<readonly string[]> {
  const program = { commands: tollway.commands, suggestNames: patientNames }
  return (await completeWords(words, program)).candidates.map(({ text }) => text)
}

function patientNames(...[completion, given]: Parameters<typeof suggestNames>) {
  return suggestNames(completion, given, patientMs)
}
