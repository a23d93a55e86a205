/** The last errors of tasks that are repeated. Reports show them as the cause of a wait. */
export type LastErrors = ReturnType<typeof createLastErrors>

interface LastErrorsOptions {
  /** Called with a task whose error is another one than before. */
  readonly onChange?: (task: string) => void
  /** Whether errors are recorded. Those of an operator that no longer leads are not. */
  readonly records?: () => boolean
}

/** Returns the text of reports for a task that failed and is repeated. */
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
    /** Passes the outcome of an attempt on, and records its error, or that it succeeded. */
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
    /** Returns each task whose last attempt failed, with its error; empty when all succeeded. */
    current: (): string => [...errors].map(([task, message]) => describeRepeated(task, message)).join('; '),
    /** Forgets all errors without a call of `onChange`. */
    clear: () => errors.clear(),
  }
}
