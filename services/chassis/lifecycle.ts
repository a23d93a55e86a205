import { type Clock, systemClock } from './clock.ts'

/**
 * How a process of ours ends: SIGTERM, SIGINT, or the end of the channel to the process that started it.
 * `stop` runs once, whatever comes how often; then the process exits. An error that nobody caught is logged
 * and ends it at once.
 */
export interface LifecycleOptions {
  /** Ends everything in order; its time is the caller's business. */
  stop(reason: string): Promise<void>
  /** Called when somebody who does not want to wait for `stop` asks once more. */
  hurry?(): void
  /** Called with what nobody caught, just before the process exits with code 1. */
  onFatal(error: unknown): void
  readonly clock?: Clock
}

/** One Ctrl-C may reach a process twice, from the terminal and from its parent. */
const sameWishMs = 500

export function runUntilStopped(options: LifecycleOptions): void {
  const { clock = systemClock } = options
  let stoppedAtMs: number | undefined
  const stop = (reason: string) => {
    const nowMs = clock.monotonicMs()
    if (stoppedAtMs !== undefined) {
      if (nowMs - stoppedAtMs > sameWishMs) options.hurry?.()
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
  // A child of the host provider must not outlive it, not even after its kill -9.
  process.on('disconnect', () => stop('the parent process is gone'))
  process.on('uncaughtException', fatal)
  process.on('unhandledRejection', fatal)
}

/**
 * Tells the process that started this one, when there is one, whether this one takes calls, and if not, why:
 * a few words for people.
 */
export function reportHealth(healthy: boolean, reason = ''): void {
  tellParent({ type: 'health', healthy, reason })
}

/** The process that started this one gives it up after several such times without a sign. */
export const signOfLifeMs = 1_000

/** Shows the process that started this one, when there is one, from now on that the event loop turns. */
export function showSignsOfLife(): void {
  if (process.send === undefined) return
  const tell = () => tellParent({ type: 'alive' })
  tell()
  setInterval(tell, signOfLifeMs).unref()
}

function tellParent(message: Readonly<Record<string, unknown>>): void {
  // A parent that is gone in this very moment is told of by 'disconnect', so the failure to send is nothing.
  if (process.connected) process.send?.(message, undefined, undefined, () => {})
}
