import type { StreamLog } from './log/stream-log.ts'

/** Healthy while the log is reachable, the routes are loaded, and the process is not stopping. */
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
  let last = false

  function problem(): string {
    if (terminating) return 'is ending'
    if (!serving) return 'has no routes yet'
    return log.healthy ? '' : `the stream log is unavailable: ${log.problem}`
  }

  const healthy = () => problem() === ''

  function changed(): void {
    if (healthy() === last) return
    last = healthy()
    for (const listener of listeners) listener(last)
  }

  log.onHealth(changed)
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
