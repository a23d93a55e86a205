/** Runs the tasks of one name one after the other, in the order of the calls. */
interface SerialTasks {
  run<T>(name: string, task: () => Promise<T>): Promise<T>
  /** Resolves when all present tasks have ended, successful or not. */
  settled(): Promise<void>
}

export function createSerialTasks(): SerialTasks {
  const last = new Map<string, Promise<unknown>>()
  return {
    run(name, task) {
      const result = (last.get(name) ?? Promise.resolve()).then(task)
      last.set(
        name,
        result.catch(() => {}),
      )
      return result
    },
    async settled() {
      await Promise.all(last.values())
    },
  }
}
