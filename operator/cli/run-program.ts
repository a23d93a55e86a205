import { type Command, type CommandOutput, exitCodes } from '@tollway/chassis/command-line/command.ts'
import type { Options, OptionValues } from '@tollway/chassis/command-line/option.ts'
import { adviceFor, describeUnknown, executeCommand } from '@tollway/chassis/command-line/run-command.ts'
import { version } from '@tollway/chassis/version.ts'
import { completeWords, formatSuggestions } from './complete-words.ts'

/** A program with commands: `tollway` or `kubectl tollway`. */
export interface Program {
  readonly name: string
  /** Shown above the list of commands. */
  readonly summary: string
  /** A command is loaded only when it runs, because loading takes most of the time of a short command. */
  readonly commands: Readonly<Record<string, () => Promise<Command>>>
}

/** The hidden command that completion scripts call with the words up to the cursor. */
const completeCommand = '__complete'
const helpOptions: readonly (string | undefined)[] = ['help', '--help', '-h']

/** Resolves with the exit code; never rejects. */
export async function runProgram(
  program: Program,
  args: readonly string[],
  output: CommandOutput,
): Promise<number> {
  const [first, ...others] = args
  if (first === '--version') {
    output.print(`${program.name} ${version}\n`)
    return exitCodes.ok
  }
  if (first === completeCommand) return complete(program, others, output)
  const isHelp = helpOptions.includes(first)
  // `help run` is `run --help`.
  const [name, ...rest] = isHelp ? [...others, '--help'] : args
  if (name === undefined || name === '--help') {
    output.print(await describeCommands(program))
    return name === undefined ? exitCodes.failed : exitCodes.ok
  }
  const called = `${program.name} ${name}`
  const load = Object.hasOwn(program.commands, name) ? program.commands[name] : undefined
  if (load !== undefined) return executeCommand(await load(), called, rest, output)
  const what = name.startsWith('-') ? `unknown option ${name}` : unknownCommand(name, program)
  output.printError(`${program.name}: ${what}\n${adviceFor(program.name)}`)
  return exitCodes.failed
}

const unknownCommand = (name: string, { commands }: Program) =>
  describeUnknown('command', name, Object.keys(commands))

async function complete(
  { commands }: Program,
  words: readonly string[],
  output: CommandOutput,
): Promise<number> {
  const { suggestNames } = await import('./suggest-names.ts')
  const suggestions = await completeWords(words, { commands, suggestNames })
  output.print(formatSuggestions(suggestions))
  return exitCodes.ok
}

async function describeCommands({ name, summary, commands }: Program): Promise<string> {
  const all = await Promise.all(Object.values(commands).map(load => load()))
  return `Usage: ${name} COMMAND [OPTIONS]

${summary}

Commands:
${all.map(command => `  ${command.name.padEnd(13)} ${command.summary}`).join('\n')}

Run '${name} COMMAND --help' for the options of a command, with examples.
Exit codes: 0 done, 1 the command found a problem in its input, 2 the command failed.
`
}

/** Takes the arguments of this process, and sets its exit code. */
export async function runInTerminal(
  run: (args: readonly string[], output: CommandOutput) => Promise<number>,
): Promise<void> {
  // The command continues when a reader such as `head` closes the output early.
  for (const stream of [process.stdout, process.stderr]) {
    stream.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code !== 'EPIPE') throw error
    })
  }
  process.exitCode = await run(process.argv.slice(2), {
    print: text => process.stdout.write(text),
    printError: text => process.stderr.write(text),
  })
}

/** Where a command finds its data: on this machine or in a cluster. */
export interface SourceOf<Found> {
  readonly options: Options
  /** Rejects with an error that names what was not found, or the missing right. */
  open(values: Readonly<Record<string, unknown>>, output: Pick<CommandOutput, 'printError'>): Promise<Found>
}

export function createSource<const Table extends Options, Found>(
  options: Table,
  open: (values: OptionValues<Table>, output: Pick<CommandOutput, 'printError'>) => Promise<Found>,
): SourceOf<Found> {
  return { options, open: (values, output) => open(values as OptionValues<Table>, output) }
}
