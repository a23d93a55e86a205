/**
 * Divides long work into slices, between which the event loop does other work. The caller awaits `yieldIfDue`
 * after each piece of work.
 */
export interface Slices {
  /**
   * Resolves after a turn of the event loop when the slice is used up; undefined before, since short work
   * should cost no promise.
   */
  yieldIfDue(): Promise<void> | undefined
}

/** @param maxMs the length of a slice. A single piece of work may take longer. */
export function createSlices(maxMs = 10): Slices {
  let endMs = performance.now() + maxMs
  return {
    yieldIfDue() {
      if (performance.now() < endMs) return undefined
      return new Promise(resolve => {
        setImmediate(() => {
          endMs = performance.now() + maxMs
          resolve()
        })
      })
    },
  }
}
