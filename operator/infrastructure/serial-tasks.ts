/** Runs tasks with the same name one after the other, in the order of the calls. */
export function createSerialTasks() {
  const last = new Map<string, Promise<unknown>>()
  return {
    run<T>(name: string, task: () => Promise<T>): Promise<T> {
      const result = (last.get(name) ?? Promise.resolve()).then(task)
      last.set(
        name,
        result.catch(() => {}),
      )
      return result
    },
    /** Resolves when all tasks that were submitted before have ended, successful or not. */
    async settled(): Promise<void> {
      await Promise.all(last.values())
    },
  }
}
