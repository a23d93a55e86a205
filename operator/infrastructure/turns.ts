/** Runs the tasks of one name one after the other, in the order of the calls. */
export interface Turns {
  run<T>(name: string, task: () => Promise<T>): Promise<T>
  /** Resolves when all present tasks have ended, successful or not. */
  settled(): Promise<void>
}

export function createTurns(): Turns {
  const last = new Map<string, Promise<unknown>>()
  return {
    run(name, task) {
      const turn = (last.get(name) ?? Promise.resolve()).then(task)
      last.set(
        name,
        turn.catch(() => {}),
      )
      return turn
    },
    async settled() {
      await Promise.all(last.values())
    },
  }
}
