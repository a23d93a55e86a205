import { nearestName } from '../nearest-name.ts'
import {
  type Command,
  type CommandAction,
  type CommandOutput,
  exitCodes,
  type Group,
  UsageError,
} from './command.ts'
import { describeCommand } from './describe-command.ts'

/**
 * Runs a command with these arguments; resolves with the exit code, and never rejects.
 *
 * @param called how the command is called: `tollway run`
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

/** `unknown command "statsu" (did you mean "status"?)` */
export function describeUnknown(what: string, name: string, names: readonly string[]): string {
  const nearest = nearestName(name, names)
  return `unknown ${what} ${JSON.stringify(name)}${nearest === undefined ? '' : ` (did you mean "${nearest}"?)`}`
}

/** `list, watch or interrupt` */
function either(names: readonly string[]): string {
  return names.length < 2 ? names.join('') : `${names.slice(0, -1).join(', ')} or ${names.at(-1)}`
}
