import type { Completion, Options } from './option.ts'

/** Where a command prints: results with `print`, problems with `printError`. */
export interface CommandOutput {
  print(text: string): void
  printError(text: string): void
}

/** The options and operands that a command or one of its subcommands takes. */
export interface Arguments {
  readonly options: Options
  /** What a shell suggests for the operands; undefined if the command takes none. */
  readonly operands?: Completion
}

/** A command without subcommands, or one subcommand. */
export interface CommandAction extends Arguments {
  /** Resolves with the exit code. Rejects with a `UsageError` when the arguments are not valid. */
  run(args: readonly string[], output: CommandOutput): Promise<number>
}

/** A command with subcommands by their names. The first argument names the subcommand. */
export interface Group {
  readonly subcommands: Readonly<Record<string, CommandAction | Group>>
}

/** A command of a program, with its help. */
export type Command = CommandTexts & (CommandAction | Group)

interface CommandTexts {
  readonly name: string
  /** A few words for the list of commands. */
  readonly summary: string
  readonly help: CommandHelp
}

/** The texts in the help of a command. The help also lists the options, from `Arguments.options`. */
export interface CommandHelp {
  /** The arguments, one line for each way to call the command: `--domain DOMAIN`. */
  readonly usage: readonly string[]
  /** The paragraphs after the usage, at most 110 columns wide. */
  readonly description: string
  /** A paragraph after the options. */
  readonly remarks?: string
  /** The meaning of each exit code: `0 done, 1 …`. */
  readonly exitCodes: string
  /** Command lines with the name of the program. */
  readonly examples: readonly string[]
}

/**
 * The exit codes of commands. 0: done. 1: the input has problems. 2: the arguments are not valid, a file is
 * missing, or the command failed.
 */
export const exitCodes = { ok: 0, wrong: 1, failed: 2 } as const

/** The arguments of a command are not valid. `executeCommand` adds how to print the help. */
export class UsageError extends Error {
  override readonly name = 'UsageError'
}
