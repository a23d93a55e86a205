import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { Command } from './command.ts'
import { describeCommand, optionsOf } from './describe-command.ts'
import { kubectlTollway } from './kubectl/run-kubectl-tollway.ts'
import { tollway } from './run-command.ts'
import type { Program } from './run-program.ts'

const maxColumns = 120
/** Options of every command, and flags of the reference, whose names the option parser does not know. */
const known = new Set(['help', 'config_dir', 'merge_domain_configs'])

describe('the help of', () => {
  for (const program of [tollway, kubectlTollway])
    for (const [name, load] of Object.entries(program.commands))
      it(`${program.name} ${name} describes exactly the options that the command takes`, async () => {
        checkHelp(program, await load())
      })
})

function checkHelp(program: Program, command: Command): void {
  const help = describeCommand(command, program.name)
  for (const line of help.split('\n')) {
    assert.doesNotMatch(line, /[ \\]$/, `a line ends with a blank or a backslash: ${line}`)
    assert.ok(line.length <= maxColumns, `${line.length} columns: ${line}`)
  }
  const options = optionsOf(command)
  for (const [option, { help: text }] of options) {
    assert.match(help, new RegExp(`--${option}\\b`), option)
    if (typeof command.help !== 'string') assert.notEqual(text, '', `--${option} has no text`)
  }
  // Other programs may be named, such as kubectl with its options.
  const own = help.split('\n').filter(line => /^ {2}-|^(Usage:| {6}) /.test(line) && line.includes('--'))
  const names = new Set([...options.map(([option]) => option), ...known])
  for (const [, option = ''] of own.join('\n').matchAll(/(?:^|[\s[|])--([a-z][\w-]*)/g))
    assert.ok(names.has(option), `the help has --${option}, which the command does not take`)
  const examples = help.split('Examples:\n')[1]?.trim().split('\n') ?? []
  assert.notEqual(examples.length, 0, 'there is no example')
  for (const example of examples) checkExample(example, command, names)
}

function checkExample(example: string, { name, actions }: Command, names: ReadonlySet<string>): void {
  const call = new RegExp(` ${name}( +[a-z]+)?`).exec(example)
  if (call === null) return
  const rest = example.slice(call.index).replace(/\s[|>&;#].*$/, '')
  for (const [, option = ''] of rest.matchAll(/ --([a-z][\w-]*)/g))
    assert.ok(names.has(option), `${example}: the command does not take --${option}`)
  const action = call[1]?.trim()
  if (actions !== undefined && action !== undefined)
    assert.ok(Object.hasOwn(actions, action), `${example}: there is no action ${action}`)
}
