import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import type { Command } from '@tollway/chassis/command-line/command.ts'
import { collectOptions, executeCommand } from '../../services/chassis/command-line/run-command.ts'
import { programs } from '../../test/support/programs.ts'
import { temporaryFolder } from '../../test/support/temporary-folder.ts'
import { root } from '../../test/support/tollway.ts'
import { kubectlTollway } from './kubectl/run-kubectl-tollway.ts'
import type { Program } from './run-program.ts'
import { stateDirOption } from './shared-options.ts'
import { tollway } from './tollway-program.ts'

const maxColumns = 120
/**
 * The names that texts may contain although no table of options has them: the option of every command, and
 * flags of envoyproxy/ratelimit.
 */
const known = new Set(['help', 'config_dir', 'merge_domain_configs'])

describe('the help of', () => {
  for (const program of [tollway, kubectlTollway])
    for (const [name, load] of Object.entries(program.commands))
      it(`${program.name} ${name} describes exactly the options that the command takes`, async () => {
        await checkHelp(program, await load())
      })
})

describe('TOLLWAY_STATE_DIR names the state folder of', () => {
  const manifests = join(root, 'examples/quickstart/checkout.yaml')
  const cwd = temporaryFolder('state-dir')
  const rows: readonly string[][] = [
    ['status'],
    ['validate'],
    ['try', '-d', 'd', '-e', 'a=b'],
    ['translate'],
    ['diff', '-f', manifests],
    ['counters', 'get', '-d', 'd', '-e', 'a=b'],
    ['whatif', '-f', manifests],
    ['streams', 'list'],
    ['collect'],
  ]
  const readError = (args: readonly string[]) => {
    const env = { PATH: process.env['PATH'], TOLLWAY_STATE_DIR: '/of-the-variable' }
    return spawnSync(process.execPath, [programs.tollway, ...args], { cwd, env, encoding: 'utf8' }).stderr
  }
  for (const args of rows)
    it(`tollway ${args.slice(0, 1)}, unless --state-dir does`, () => {
      assert.match(readError(args), /with the state in \/of-the-variable/)
      assert.match(readError([...args, '--state-dir', '/of-the-option']), /with the state in \/of-the-option/)
    })

  it('every command with --state-dir', async () => {
    const names: string[] = []
    for (const [name, load] of Object.entries(tollway.commands))
      if (collectOptions(await load()).some(([option]) => option === 'state-dir')) names.push(name)
    // `run` and `version` are added: without a running operator, they do not name the state folder.
    const tested = [...rows.flatMap(([name]) => name ?? []), 'run', 'version']
    assert.deepEqual(names.sort(), tested.sort())
  })
})

async function checkHelp(program: Program, command: Command): Promise<void> {
  const printed: string[] = []
  const output = { print: (text: string) => void printed.push(text), printError: assert.fail }
  await executeCommand(command, `${program.name} ${command.name}`, ['--help'], output)
  const help = printed.join('')
  for (const line of help.split('\n')) {
    assert.doesNotMatch(line, /[ \\]$/, `a line ends with a blank or a backslash: ${line}`)
    assert.ok(line.length <= maxColumns, `${line.length} columns: ${line}`)
  }
  const options = collectOptions(command)
  for (const [option, definition] of options) {
    const { help: text } = definition
    // Only the option `state-dir` reads the variable.
    if (option === 'state-dir') assert.equal(definition, stateDirOption)
    assert.match(help, new RegExp(`--${option}\\b`), option)
    assert.notEqual(text, '', `--${option} has no text`)
  }
  // Other lines may have options of other programs, such as kubectl.
  const own = help.split('\n').filter(line => /^ {2}-|^(Usage:| {6}) /.test(line) && line.includes('--'))
  const names = new Set([...options.map(([option]) => option), ...known])
  for (const [, option = ''] of own.join('\n').matchAll(/(?:^|[\s[|])--([a-z][\w-]*)/g))
    assert.ok(names.has(option), `the help has --${option}, which the command does not take`)
  const examples = help.split('Examples:\n')[1]?.trim().split('\n') ?? []
  assert.notEqual(examples.length, 0, 'there is no example')
  for (const example of examples) checkExample(example, command, names)
}

function checkExample(example: string, command: Command, names: ReadonlySet<string>): void {
  const { name } = command
  const call = new RegExp(` ${name}( +[a-z]+)?`).exec(example)
  if (call === null) return
  const rest = example.slice(call.index).replace(/\s[|>&;#].*$/, '')
  for (const [, option = ''] of rest.matchAll(/ --([a-z][\w-]*)/g))
    assert.ok(names.has(option), `${example}: the command does not take --${option}`)
  const action = call[1]?.trim()
  if ('subcommands' in command && action !== undefined)
    assert.ok(Object.hasOwn(command.subcommands, action), `${example}: there is no subcommand ${action}`)
}
