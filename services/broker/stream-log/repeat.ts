/**
 * Repeats work until the returned function is called. Tests pass their own function. Timeouts are checked by
 * repeated work, so that no message needs a timer.
 */
export type Repeat = (everyMs: number, work: () => void) => () => void

/** Repeats by a timer that does not keep the process alive. */
export const systemRepeat: Repeat = (everyMs, work) => {
  const timer = setInterval(work, everyMs)
  timer.unref()
  return () => clearInterval(timer)
}
