import { type Clock, systemClock } from './clock.ts'

/**
 * On SIGTERM, SIGINT or the end of the channel to the parent process, `stop` is called once; then the process
 * exits with code 0. After an uncaught error, or a rejection of `stop`, `onFatal` is called with it, and the
 * code is 1.
 */
interface LifecycleOptions {
  /** Ends the work of the process. There is no time limit, so this must end by itself. */
  stop(reason: string): Promise<void>
  /** Called at each further signal after 500 ms: the user does not want to wait for `stop`. */
  forceShutdown?(): void
  /** Called just before the process exits with code 1. */
  onFatal(error: unknown): void
  readonly clock?: Clock
}

/**
 * Signals within this time count as one: one Ctrl-C may reach a process twice, from the terminal and from its
 * parent.
 */
const sameRequestMs = 500

export function runUntilStopped(options: LifecycleOptions): void {
  const { clock = systemClock } = options
  let stoppedAtMs: number | undefined
  const stop = (reason: string) => {
    const nowMs = clock.monotonicMs()
    if (stoppedAtMs !== undefined) {
      if (nowMs - stoppedAtMs > sameRequestMs) options.forceShutdown?.()
      return
    }
    stoppedAtMs = nowMs
    options.stop(reason).then(
      () => process.exit(0),
      error => fatal(error),
    )
  }
  const fatal = (error: unknown) => {
    options.onFatal(error)
    process.exit(1)
  }
  process.on('SIGTERM', () => stop('SIGTERM'))
  process.on('SIGINT', () => stop('SIGINT'))
  // A child process must end with its parent, even if SIGKILL ended the parent.
  process.on('disconnect', () => stop('the parent process has ended'))
  process.on('uncaughtException', fatal)
  process.on('unhandledRejection', fatal)
}

/** Reports to the parent process, if any, whether this process accepts calls, and in a few words why not. */
export function reportHealth(healthy: boolean, reason = ''): void {
  sendToParent({ type: 'health', healthy, reason })
}

/**
 * Reports to the parent process, if any, why the backend fails; empty when it answers. The health stays as it
 * is.
 */
export function reportBackend(problem: string): void {
  sendToParent({ type: 'backend', problem })
}

/** The parent kills a process after several of these intervals without a sign of life. */
const signOfLifeMs = 1_000

/** Sends signs of life to the parent process, if any. A blocked event loop sends none. */
export function showSignsOfLife(): void {
  if (process.send === undefined) return
  const send = () => sendToParent({ type: 'alive' })
  send()
  setInterval(send, signOfLifeMs).unref()
}

function sendToParent(message: Readonly<Record<string, unknown>>): void {
  // A failure to send is ignored: the event `disconnect` reports the end of the parent.
  if (process.connected) process.send?.(message, undefined, undefined, () => {})
}
