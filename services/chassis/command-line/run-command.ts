import { nearestName } from '../nearest-name.ts'
import {
  type Command,
  type CommandAction,
  type CommandOutput,
  exitCodes,
  type Group,
  UsageError,
} from './command.ts'
import type { Option } from './option.ts'

/**
 * Runs a command, or prints its help for `--help` or `-h`. Resolves with the exit code; never rejects, since
 * every error is printed.
 *
 * @param called how the user called the command: `tollway run`
 */
export async function executeCommand(
  command: Command,
  called: string,
  args: readonly string[],
  output: CommandOutput,
): Promise<number> {
  if (args.includes('--help') || args.includes('-h')) {
    output.print(describeCommand(command, called))
    return exitCodes.ok
  }
  try {
    return await runAction(command, args, output)
  } catch (error) {
    output.printError(`${called}: ${(error as Error).message}\n`)
    if (error instanceof UsageError) output.printError(adviceFor(called))
    return exitCodes.failed
  }
}

export const adviceFor = (called: string) => `Run '${called} --help' for usage.\n`

function runAction(
  command: CommandAction | Group,
  args: readonly string[],
  output: CommandOutput,
): Promise<number> {
  if (!('subcommands' in command)) return command.run(args, output)
  const { subcommands } = command
  const [name, ...rest] = args
  const subcommand = name !== undefined && Object.hasOwn(subcommands, name) ? subcommands[name] : undefined
  if (subcommand !== undefined) return runAction(subcommand, rest, output)
  const names = Object.keys(subcommands)
  if (name === undefined || name.startsWith('-')) throw new UsageError(`missing subcommand: ${either(names)}`)
  const nearest = describeUnknown('subcommand', name, names)
  throw new UsageError(nearest.endsWith(')') ? nearest : `${nearest}: must be ${either(names)}`)
}

/** Returns `unknown command "statsu" (did you mean "status"?)`. */
export function describeUnknown(what: string, name: string, names: readonly string[]): string {
  const nearest = nearestName(name, names)
  return `unknown ${what} ${JSON.stringify(name)}${nearest === undefined ? '' : ` (did you mean "${nearest}"?)`}`
}

/** Returns `list, watch or interrupt`. */
function either(names: readonly string[]): string {
  return names.length < 2 ? names.join('') : `${names.slice(0, -1).join(', ')} or ${names.at(-1)}`
}

/** @param called how the user calls the command: `tollway NAME` */
function describeCommand(command: Command, called: string): string {
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

/** Returns the options of a command and its subcommands, each `Option` object once. */
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

/** Lists the options with their defaults, at most 110 columns wide. */
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
