import { type Clock, systemClock } from './clock.ts'

/**
 * How a process ends: SIGTERM, SIGINT or the end of the channel to its parent process runs `stop`, once for
 * any number of signals; then the process exits with code 0. An uncaught error, or a rejection of `stop`, is
 * passed to `onFatal` and ends the process with code 1.
 */
interface LifecycleOptions {
  /** Ends the work of the process. `runUntilStopped` sets no time limit, so this must end by itself. */
  stop(reason: string): Promise<void>
  /**
   * Called at each further signal, since the user who sends it does not want to wait for `stop`. A signal
   * within 500 ms of the first does not count.
   */
  forceShutdown?(): void
  /** Called with an uncaught error, just before the process exits with code 1. */
  onFatal(error: unknown): void
  readonly clock?: Clock
}

/**
 * One Ctrl-C may reach a process twice, directly from the terminal and from its parent: signals within this
 * time count as one.
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
  // A child process must end with its parent, also when the parent was killed with SIGKILL.
  process.on('disconnect', () => stop('the parent process has ended'))
  process.on('uncaughtException', fatal)
  process.on('unhandledRejection', fatal)
}

/**
 * Reports to the parent process, if any, whether this process accepts calls; `reason` says in a few words for
 * people why it does not.
 */
export function reportHealth(healthy: boolean, reason = ''): void {
  sendToParent({ type: 'health', healthy, reason })
}

/**
 * Reports to the parent process, if any, why the backend of this process fails; an empty text means that the
 * backend answers. A failing backend does not change the reported health.
 */
export function reportBackend(problem: string): void {
  sendToParent({ type: 'backend', problem })
}

/** The interval of signs of life; the parent kills a process after several intervals without one. */
const signOfLifeMs = 1_000

/**
 * Sends a sign of life to the parent process, if any, now and at intervals. A blocked event loop sends none.
 */
export function showSignsOfLife(): void {
  if (process.send === undefined) return
  const send = () => sendToParent({ type: 'alive' })
  send()
  setInterval(send, signOfLifeMs).unref()
}

function sendToParent(message: Readonly<Record<string, unknown>>): void {
  // A failure to send is ignored: the event 'disconnect' reports the end of the parent.
  if (process.connected) process.send?.(message, undefined, undefined, () => {})
}
