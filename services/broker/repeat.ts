/**
 * Does work again and again until the returned function is called. A parameter, so that a test has its own
 * time. What has a time limit is looked at in intervals: no message costs a timer.
 */
export type Repeat = (everyMs: number, work: () => void) => () => void

/** By a timer that keeps no process alive. */
export const systemRepeat: Repeat = (everyMs, work) => {
  const timer = setInterval(work, everyMs)
  timer.unref()
  return () => clearInterval(timer)
}
