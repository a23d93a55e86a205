import type { Command, CommandAction, Group } from './command.ts'
import type { Option } from './option.ts'

/**
 * Returns what `tollway NAME --help` prints.
 *
 * @param called how the command is called: `tollway NAME`
 */
export function describeCommand(command: Command, called: string): string {
  const { usage, description, remarks, exitCodes, examples } = command.help
  const calls = usage.map((line, index) => `${index === 0 ? 'Usage:' : '      '} ${called} ${line}`)
  const options = collectOptions(command)
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

/** Returns the options of a command and of its subcommands. Those that share an option share its entry. */
export function collectOptions(command: CommandAction | Group): readonly (readonly [string, Option])[] {
  const names = new Map<Option, string>()
  for (const { options } of collectActions(command))
    for (const [name, option] of Object.entries(options)) names.set(option, name)
  return Array.from(names, ([option, name]) => [name, option] as const)
}

function collectActions(command: CommandAction | Group): readonly CommandAction[] {
  return 'subcommands' in command ? Object.values(command.subcommands).flatMap(collectActions) : [command]
}

const maxColumn = 34
const width = 110

/** Returns the lines of the options, each with its default. */
function describeOptions(options: readonly (readonly [string, Option])[]): string {
  const starts = options.map(([name, option]) => formatName(name, option))
  const column = Math.min(maxColumn, Math.max(...starts.map(start => start.length)) + 2)
  return options.map(([, option], index) => describeOption(starts[index] ?? '', option, column)).join('\n')
}

function formatName(name: string, { short, placeholder }: Option): string {
  return `  ${short === undefined ? '' : `-${short}, `}--${name} ${placeholder}`.trimEnd()
}

function describeOption(start: string, { help, shownFallback }: Option, column: number): string {
  const shown = shownFallback === '' ? '' : ` (default ${shownFallback})`
  const lines = [start.padEnd(column - 1)]
  for (const word of `${help}${shown}`.split(' ')) {
    if ((lines.at(-1) ?? '').length + 1 + word.length > width) lines.push(' '.repeat(column - 1))
    lines.push(`${lines.pop()} ${word}`)
  }
  return lines.join('\n')
}
