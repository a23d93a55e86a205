import { type Command, exitCodes, type Output, UsageError } from './command.ts'
import { completeWords, formatSuggestions } from './completion/complete-words.ts'
import { describeCommand } from './describe-command.ts'
import { nearestName } from './options/nearest-name.ts'

/** The commands of `tollway`, or those of `kubectl tollway`. */
export interface Program {
  /** The name of the program: `tollway`. */
  readonly name: string
  /** A sentence for the list of commands. */
  readonly summary: string
  /** A command loads only what it needs: to start is most of what a short one does. */
  readonly commands: Readonly<Record<string, () => Promise<Command>>>
}

/** Is run by the completion scripts, with the words up to the cursor. */
const completeCommand = '__complete'

/** Runs a program with these arguments; resolves with the exit code, and never rejects. */
export async function runProgram(
  program: Program,
  [name, ...args]: readonly string[],
  output: Output,
): Promise<number> {
  if (name === undefined || name === '--help' || name === '-h' || name === 'help') {
    output.print(await describeCommands(program))
    return name === undefined ? exitCodes.failed : exitCodes.ok
  }
  if (name === completeCommand) return complete(program, args, output)
  const load = Object.hasOwn(program.commands, name) ? program.commands[name] : undefined
  if (load === undefined) {
    output.printError(`${program.name}: ${describeUnknown(name, Object.keys(program.commands))}\n`)
    return exitCodes.failed
  }
  const command = await load()
  if (args.includes('--help') || args.includes('-h')) {
    output.print(describeCommand(command, program.name))
    return exitCodes.ok
  }
  try {
    return await command.run(args, output)
  } catch (error) {
    const called = `${program.name} ${name}`
    output.printError(`${called}: ${(error as Error).message}\n`)
    if (error instanceof UsageError) output.printError(`${called} --help shows how it is called\n`)
    return exitCodes.failed
  }
}

async function complete({ commands }: Program, words: readonly string[], output: Output): Promise<number> {
  const { resourceNames } = await import('./completion/resource-names.ts')
  const suggestions = await completeWords(words, { commands, namesOf: resourceNames })
  output.print(formatSuggestions(suggestions))
  return exitCodes.ok
}

function describeUnknown(name: string, names: readonly string[]): string {
  const nearest = nearestName(name, names)
  const advice = nearest === undefined ? `there are ${names.join(', ')}` : `did you mean ${nearest}?`
  return `there is no command "${name}"; ${advice}`
}

async function describeCommands({ name, summary, commands }: Program): Promise<string> {
  const all = await Promise.all(Object.values(commands).map(load => load()))
  return `Usage: ${name} COMMAND [OPTIONS]

${summary}

Commands:
${all.map(command => `  ${command.name.padEnd(13)} ${command.summary}`).join('\n')}

${name} COMMAND --help shows a command's options with examples.
Exit codes: 0 done, 1 the command found a problem in its input, 2 the command failed.
`
}
