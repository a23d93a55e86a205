/**
 * The health of a service's process: healthy from `serve` to `terminate`, unless a part of the service has a
 * problem.
 */
export interface ServiceHealth {
  healthy(): boolean
  /** Returns why the process is unhealthy, in a few words; empty when it is healthy. */
  problem(): string
  /**
   * Returns why the process accepts no calls; empty when it accepts them. Unlike `problem`, this does not
   * count a shutdown before `close`.
   */
  acceptProblem(): string
  /**
   * Adds a listener. It is called with the current state at once, and with the new state after each change.
   */
  onChange(listener: (healthy: boolean) => void): void
  /** Records that the ports for calls are open; before that the process is unhealthy. */
  serve(): void
  /**
   * Records that the process is shutting down: it is unhealthy from now on, and accepts calls until `close`.
   */
  terminate(): void
  /** Records that the ports for calls are about to close: `acceptProblem` returns a problem from now on. */
  close(): void
  terminating(): boolean
  /**
   * Calls the listeners if the health has changed. To be called when the problem of a part may have changed.
   */
  check(): void
}

/**
 * @param findProblem returns the problem of the service's parts, which is not empty while `isServing` is
 *   false; empty means healthy
 */
export function createServiceHealth(findProblem: (isServing: boolean) => string): ServiceHealth {
  const listeners: ((healthy: boolean) => void)[] = []
  let isServing = false
  let isTerminating = false
  let isClosed = false
  let last = false

  const problem = () => (isTerminating ? 'is ending' : findProblem(isServing))
  const acceptProblem = () => (isClosed ? 'is ending' : findProblem(isServing))
  const healthy = () => problem() === ''

  function check(): void {
    if (healthy() === last) return
    last = healthy()
    for (const listener of listeners) listener(last)
  }

  return {
    healthy,
    problem,
    acceptProblem,
    check,
    onChange(listener) {
      listeners.push(listener)
      listener(healthy())
    },
    serve() {
      isServing = true
      check()
    },
    terminate() {
      isTerminating = true
      check()
    },
    close() {
      isClosed = true
    },
    terminating: () => isTerminating,
  }
}
