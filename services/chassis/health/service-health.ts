/** The health of a service's process, which begins when it serves and ends when it terminates. */
export interface ServiceHealth {
  healthy(): boolean
  /** Returns why the process is unhealthy, in a few words; empty when it is healthy. */
  problem(): string
  /** Returns the same while the process accepts calls, except that a shutdown is no problem. */
  acceptProblem(): string
  /** Adds a listener, and calls it with the current state at once and after each change. */
  onChange(listener: (healthy: boolean) => void): void
  /** Records that the ports for calls are open; before that the process is unhealthy. */
  serve(): void
  /** Records that the process is shutting down: it stays unhealthy, and accepts calls until `close`. */
  terminate(): void
  /** Records that the ports for calls close. */
  close(): void
  terminating(): boolean
  /** Reads the problem again: a part of the service may have changed. */
  check(): void
}

/** @param findProblem returns the problem of the service's parts; empty only if the process serves */
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
