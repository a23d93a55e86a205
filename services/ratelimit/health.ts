import type { Counters } from './counters/counters.ts'
import type { Configuration } from './feeds/configuration.ts'

/** Healthy while every component is: the counters, the configuration if required, and the process. */
export interface Health {
  healthy(): boolean
  /** Returns why the service is unhealthy, in a few words; empty when it is healthy. */
  problem(): string
  /** Adds a listener, and calls it with the current state at once and after each change. */
  onChange(listener: (healthy: boolean) => void): void
  /** Records that the ports for calls are open; before that the service is unhealthy. */
  serve(): void
  /** Records that the process is shutting down: it stays unhealthy. */
  terminate(): void
  terminating(): boolean
}

export interface HealthOptions {
  readonly counters: Pick<Counters, 'healthy' | 'problem' | 'onHealth'>
  readonly configuration: Pick<Configuration, 'rules' | 'onLoad'>
  /** Requires a domain: HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED. */
  readonly withConfig: boolean
}

export function createHealth(options: HealthOptions): Health {
  const { counters, configuration } = options
  const listeners: ((healthy: boolean) => void)[] = []
  let serving = false
  let terminating = false
  let last = healthy()

  function problem(): string {
    if (terminating) return 'is ending'
    if (!counters.healthy) return `the backend of its counters is away: ${counters.problem}`
    if (!serving) return 'waits for its configuration'
    const hasDomains = (configuration.rules()?.domains.size ?? 0) > 0
    return hasDomains || !options.withConfig ? '' : 'has no domain yet'
  }

  function healthy(): boolean {
    return problem() === ''
  }

  function changed(): void {
    if (healthy() === last) return
    last = healthy()
    for (const listener of listeners) listener(last)
  }

  counters.onHealth(changed)
  configuration.onLoad(changed)
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
    terminating: () => terminating,
  }
}
