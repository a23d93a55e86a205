/**
 * Repeats work until the returned function is called; tests control it. Timeouts are checked in such
 * intervals, so that no message needs a timer.
 */
export type Repeat = (everyMs: number, work: () => void) => () => void

/** The timer does not keep the process alive. */
export const systemRepeat: Repeat = (everyMs, work) => {
  const timer = setInterval(work, everyMs)
  timer.unref()
  return () => clearInterval(timer)
}
