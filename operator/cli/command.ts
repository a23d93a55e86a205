/** One command of `tollway`. */
export interface Command {
  readonly name: string
  /** A few words for the list of commands. */
  readonly summary: string
  /** What `tollway NAME --help` prints: usage, options, examples. */
  readonly help: string
  /** Resolves with the exit code. Throws a `UsageError` for arguments that it cannot take. */
  run(args: readonly string[], output: Output): Promise<number>
}

/** Where a command prints. */
export interface Output {
  print(text: string): void
  printError(text: string): void
}

/** 0: done. 1: the input has errors. 2: the arguments are not valid, or the command failed. */
export const exitCodes = { ok: 0, wrong: 1, failed: 2 } as const

export class UsageError extends Error {
  override readonly name = 'UsageError'
}
