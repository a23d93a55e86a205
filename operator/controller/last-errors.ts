/** The last errors of tasks that are repeated. Reports show them as the cause of a wait. */
export interface LastErrors {
  failed(task: string, error: unknown): void
  succeeded(task: string): void
  /** Runs a task and records its outcome. */
  watch(task: string, run: () => Promise<void>): Promise<void>
  /** Returns each task whose last run failed, with its error; empty when all succeeded. */
  current(): string
}

export function createLastErrors(): LastErrors {
  const errors = new Map<string, string>()
  const failed = (task: string, error: unknown) => void errors.set(task, (error as Error).message)
  const succeeded = (task: string) => void errors.delete(task)
  return {
    failed,
    succeeded,
    async watch(task, run) {
      try {
        await run()
        succeeded(task)
      } catch (error) {
        failed(task, error)
        throw error
      }
    },
    current: () => [...errors].map(([task, message]) => `${task}: ${message}; it is repeated`).join('; '),
  }
}
