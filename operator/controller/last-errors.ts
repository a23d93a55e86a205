/** The last error of each repeated task. Reports show it as the cause of a wait. */
export type LastErrors = ReturnType<typeof createLastErrors>

interface LastErrorsOptions {
  readonly onChange?: (task: string) => void
  /** Returns whether errors are recorded. An operator that no longer leads records none. */
  readonly records?: () => boolean
}

/** Returns the text that reports show for a task that failed and will be repeated. */
export function describeRepeated(task: string, message: string): string {
  return `${task}: ${message}; it is repeated`
}

export function createLastErrors({ onChange, records = () => true }: LastErrorsOptions = {}) {
  const errors = new Map<string, string>()

  function set(task: string, message: string | undefined): void {
    if (errors.get(task) === message) return
    if (message === undefined) errors.delete(task)
    else errors.set(task, message)
    onChange?.(task)
  }

  return {
    /** Awaits an attempt, and records its error or its success. Resolves or rejects as the attempt does. */
    async watch<Result>(task: string, attempt: Promise<Result>): Promise<Result> {
      try {
        const result = await attempt
        set(task, undefined)
        return result
      } catch (error) {
        set(task, records() ? (error as Error).message : undefined)
        throw error
      }
    },
    /** Returns the error of the last attempt; undefined when it succeeded. */
    get: (task: string): string | undefined => errors.get(task),
    /** Returns each task whose last attempt failed, with the error, in one line; empty when all succeeded. */
    current: (): string => [...errors].map(([task, message]) => describeRepeated(task, message)).join('; '),
    clear: () => errors.clear(),
  }
}
