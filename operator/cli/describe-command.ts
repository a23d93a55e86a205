import type { Command } from './command.ts'
import { describeOptions } from './options/describe-options.ts'
import type { Option } from './options/option.ts'

/**
 * Returns what `tollway NAME --help` prints.
 *
 * @param program the name of the program that has the command
 */
export function describeCommand(command: Command, program: string): string {
  const { name, help } = command
  if (typeof help === 'string') return help
  const { usage, description, remarks, exitCodes, examples } = help
  const calls = usage.map((line, index) => `${index === 0 ? 'Usage:' : '      '} ${program} ${name} ${line}`)
  const options = optionsOf(command)
  const parts = [
    calls.map(line => line.trimEnd()).join('\n'),
    description,
    ...(options.length > 0 ? [describeOptions(options)] : []),
    ...(remarks === undefined ? [] : [remarks]),
    `Exit code: ${exitCodes}`,
    `Examples:\n${examples.map(line => `  ${line}`).join('\n')}`,
  ]
  return `${parts.join('\n\n')}\n`
}

/** Returns the options of a command and of its actions. Actions that share an option share its entry. */
export function optionsOf({ options, actions = {} }: Command): readonly (readonly [string, Option])[] {
  const names = new Map<Option, string>()
  for (const table of [options, ...Object.values(actions).map(action => action.options)])
    for (const [name, option] of Object.entries(table)) names.set(option, name)
  return Array.from(names, ([option, name]) => [name, option] as const)
}
