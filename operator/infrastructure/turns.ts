/** Runs what concerns one name in the order of the calls, one after the other. */
export interface Turns {
  run<T>(name: string, task: () => Promise<T>): Promise<T>
  /** Resolves when all that was begun or waits by now has ended, be it well or not. */
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
