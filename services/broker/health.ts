import type { StreamLog } from './log/stream-log.ts'

/** Healthy while the log can be reached, the routes are there, and no end is in sight. */
export interface Health {
  healthy(): boolean
  /** Why it is not healthy, in a few words; empty when it is. */
  problem(): string
  /** Calls back with the present state at once, and after each change. */
  onChange(listener: (healthy: boolean) => void): void
  /** Calls are taken from now on. */
  serve(): void
  /** The process was told to end: unhealthy from now on. */
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
    return log.healthy ? '' : `the stream log is away: ${log.problem}`
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
