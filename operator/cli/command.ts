import type { Completion } from './completion/completion.ts'
import type { Options } from './options/option.ts'

/** The options and operands of a command or of one of its actions. */
export interface Arguments {
  readonly options: Options
  /** The completion of operands; undefined if there are none. */
  readonly operands?: Completion
}

/** One command of `tollway`. */
export interface Command extends Arguments {
  readonly name: string
  /** A few words for the list of commands. */
  readonly summary: string
  /** The first argument, for a command that has several actions. */
  readonly actions?: Readonly<Record<string, Arguments>>
  /** The texts of the help, or the whole help of a program that parses its arguments itself. */
  readonly help: CommandHelp | string
  /** Resolves with the exit code. Throws a `UsageError` for arguments that it cannot take. */
  run(args: readonly string[], output: Output): Promise<number>
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

/** The output of a command. */
export interface Output {
  print(text: string): void
  printError(text: string): void
}

/** 0: done. 1: the input has errors. 2: the arguments are not valid, or the command failed. */
export const exitCodes = { ok: 0, wrong: 1, failed: 2 } as const

export class UsageError extends Error {
  override readonly name = 'UsageError'
}
