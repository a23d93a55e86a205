/**
 * Repeats work until the returned function is called. Injected, so that tests control the time. Time limits
 * are checked in intervals: no message needs a timer.
 */
export type Repeat = (everyMs: number, work: () => void) => () => void

/** A timer that does not keep the process alive. */
export const systemRepeat: Repeat = (everyMs, work) => {
  const timer = setInterval(work, everyMs)
  timer.unref()
  return () => clearInterval(timer)
}
