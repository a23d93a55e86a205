import type { Completion, Options } from './option.ts'

/** The output of a command. */
export interface CommandOutput {
  print(text: string): void
  printError(text: string): void
}

/** The options and operands that a command or one of its subcommands takes. */
export interface Arguments {
  readonly options: Options
  /** The completion of operands; undefined if there are none. */
  readonly operands?: Completion
}

/** What a command does with its arguments. */
export interface CommandAction extends Arguments {
  /** Resolves with the exit code. Throws a `UsageError` for arguments that it cannot take. */
  run(args: readonly string[], output: CommandOutput): Promise<number>
}

/** Subcommands by their names; the first argument is one of them. */
export interface Group {
  readonly subcommands: Readonly<Record<string, CommandAction | Group>>
}

/** One command of a program. */
export type Command = CommandTexts & (CommandAction | Group)

interface CommandTexts {
  readonly name: string
  /** A few words for the list of commands. */
  readonly summary: string
  readonly help: CommandHelp
}

/** The texts of the help of a command. The lines of its options follow from their table. */
export interface CommandHelp {
  /** The arguments, a line for each way to call it: `--domain DOMAIN`. */
  readonly usage: readonly string[]
  /** The paragraphs after the usage, at most 110 columns wide. */
  readonly description: string
  /** A paragraph after the options. */
  readonly remarks?: string
  /** `0 done, 1 …`. */
  readonly exitCodes: string
  /** Whole command lines. */
  readonly examples: readonly string[]
}

/** 0: done. 1: the input has problems. 2: the arguments are not valid, a file is missing, or the command failed. */
export const exitCodes = { ok: 0, wrong: 1, failed: 2 } as const

/** The command line is not valid. */
export class UsageError extends Error {
  override readonly name = 'UsageError'
}
