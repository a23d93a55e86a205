import { type Clock, systemClock } from './clock.ts'

/**
 * Runs the shutdown of a process: at SIGTERM, SIGINT, or the end of the channel to its parent process. `stop`
 * runs once, for any number of signals; then the process exits. An uncaught error is logged and ends the
 * process at once.
 */
interface LifecycleOptions {
  /** Shuts down in order; the caller limits its time. */
  stop(reason: string): Promise<void>
  /** Called at a second signal, from a user who does not want to wait for `stop`. */
  forceShutdown?(): void
  /** Called with an uncaught error, just before the process exits with code 1. */
  onFatal(error: unknown): void
  readonly clock?: Clock
}

/** One Ctrl-C may reach a process twice: from the terminal and from its parent. */
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
  // A child of the host provider must end with it, also after a kill -9.
  process.on('disconnect', () => stop('the parent process has ended'))
  process.on('uncaughtException', fatal)
  process.on('unhandledRejection', fatal)
}

/**
 * Reports to the parent process, if any, whether this process accepts calls, and if not, why: a few words for
 * people.
 */
export function reportHealth(healthy: boolean, reason = ''): void {
  sendToParent({ type: 'health', healthy, reason })
}

/**
 * Reports to the parent process, if any, why the backend of this process fails; empty when it answers. The
 * process stays healthy meanwhile.
 */
export function reportBackend(problem: string): void {
  sendToParent({ type: 'backend', problem })
}

/** The interval of signs of life; the parent kills a process after several intervals without one. */
const signOfLifeMs = 1_000

/** Starts to send signs of life to the parent process, if any, while the event loop runs. */
export function showSignsOfLife(): void {
  if (process.send === undefined) return
  const send = () => sendToParent({ type: 'alive' })
  send()
  setInterval(send, signOfLifeMs).unref()
}

function sendToParent(message: Readonly<Record<string, unknown>>): void {
  // A failure to send is ignored: 'disconnect' reports that the parent has ended.
  if (process.connected) process.send?.(message, undefined, undefined, () => {})
}
