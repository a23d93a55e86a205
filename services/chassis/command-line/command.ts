import type { Completion, Options } from './option.ts'

/** `print` is for results, `printError` for problems. */
export interface CommandOutput {
  print(text: string): void
  printError(text: string): void
}

export interface Arguments {
  readonly options: Options
  /** What a shell suggests for operands; undefined if the command takes none. */
  readonly operands?: Completion
}

export interface CommandAction extends Arguments {
  /** Resolves with the exit code. Rejects with a `UsageError` when the arguments are not valid. */
  run(args: readonly string[], output: CommandOutput): Promise<number>
}

/** A command with subcommands, the first argument of which names the subcommand. */
export interface Group {
  readonly subcommands: Readonly<Record<string, CommandAction | Group>>
}

export type Command = CommandTexts & (CommandAction | Group)

interface CommandTexts {
  readonly name: string
  /** A few words for the list of commands. */
  readonly summary: string
  readonly help: CommandHelp
}

/** The texts of the help, which also lists the options of `Arguments.options`. */
export interface CommandHelp {
  /** One line for each way to call the command: `--domain DOMAIN`. */
  readonly usage: readonly string[]
  /** At most 110 columns wide. */
  readonly description: string
  readonly remarks?: string
  /** The meaning of each exit code: `0 done, 1 …`. */
  readonly exitCodes: string
  /** Command lines with the name of the program. */
  readonly examples: readonly string[]
}

/**
 * `wrong`: the input has problems. `failed`: the arguments are invalid, a file is missing, or the command
 * failed.
 */
export const exitCodes = { ok: 0, wrong: 1, failed: 2 } as const

/** The arguments are not valid. `executeCommand` adds how to print the help. */
export class UsageError extends Error {
  override readonly name = 'UsageError'
}
