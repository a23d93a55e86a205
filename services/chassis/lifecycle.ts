/**
 * How a process of ours ends: SIGTERM, SIGINT, or the end of the channel to the process that started it.
 * `stop` runs once, whatever comes how often; then the process exits. An error that nobody caught is logged
 * and ends it at once.
 */
export interface LifecycleOptions {
  /** Ends everything in order; its time is the caller's business. */
  stop(reason: string): Promise<void>
  /** Called with what nobody caught, just before the process exits with code 1. */
  onFatal(error: unknown): void
}

export function runUntilStopped(options: LifecycleOptions): void {
  let stopping = false
  const stop = (reason: string) => {
    if (stopping) return
    stopping = true
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

/** Tells the process that started this one, when there is one, whether this one takes calls. */
export function reportHealth(healthy: boolean): void {
  // A parent that is gone in this very moment is told of by 'disconnect', so the failure to send is nothing.
  if (process.connected) process.send?.({ type: 'health', healthy }, undefined, undefined, () => {})
}
