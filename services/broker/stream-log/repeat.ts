/**
 * Repeats work until the returned function is called; tests pass one that they control. Timeouts are checked
 * in such intervals, so that no message needs a timer of its own.
 */
export type Repeat = (everyMs: number, work: () => void) => () => void

/** Repeats with a timer that does not keep the process alive. */
export const systemRepeat: Repeat = (everyMs, work) => {
  const timer = setInterval(work, everyMs)
  timer.unref()
  return () => clearInterval(timer)
}
