/**
 * Divides long work on the event loop into slices. After each piece of work the caller awaits `yieldIfDue`, which
 * lets other work run when the slice is used up.
 */
export interface Slices {
  /** undefined while the slice lasts, so that short work costs no promise. */
  yieldIfDue(): Promise<void> | undefined
}

/** @param maxMs the length of a slice. One piece of work may exceed it. */
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
