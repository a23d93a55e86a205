/** The tasks that failed and are repeated. What is repeated is awaited, which reports say. */
export interface LastErrors {
  failed(task: string, error: unknown): void
  succeeded(task: string): void
  /** Runs a task and records its outcome. */
  watch(task: string, run: () => Promise<void>): Promise<void>
  /** Returns the tasks that failed last time, each with its error; empty when there is none. */
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
