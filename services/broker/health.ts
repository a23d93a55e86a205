import type { StreamLog } from './log/stream-log.ts'

/**
 * Healthy when the log has answered once, the routes are loaded, and the process is not stopping. A log that
 * fails later does not make the process unhealthy: that would take all brokers of a Redis out of service at
 * once, while their callers get an error that names the cause.
 */
export interface Health {
  healthy(): boolean
  /** A short reason for being unhealthy; empty if healthy. */
  problem(): string
  /** Calls back with the current state at once, and after each change. */
  onChange(listener: (healthy: boolean) => void): void
  /** The service accepts calls from now on. */
  serve(): void
  /** The process is stopping: unhealthy from now on. */
  terminate(): void
}

export function createHealth(log: Pick<StreamLog, 'healthy' | 'problem' | 'onHealth'>): Health {
  const listeners: ((healthy: boolean) => void)[] = []
  let serving = false
  let terminating = false
  let answered = log.healthy
  let last = false

  function problem(): string {
    if (terminating) return 'is ending'
    if (!serving) return 'has no routes yet'
    return answered ? '' : `the stream log is unavailable: ${log.problem}`
  }

  const healthy = () => problem() === ''

  function changed(): void {
    if (healthy() === last) return
    last = healthy()
    for (const listener of listeners) listener(last)
  }

  log.onHealth(healthy => {
    answered ||= healthy
    changed()
  })
  return {
    healthy,
    problem,
    onChange(listener) {
      listeners.push(listener)
      listener(healthy())
    },
    serve() {
      serving = true
      changed()
    },
    terminate() {
      terminating = true
      changed()
    },
  }
}
