import type { Counters } from './counters/counters.ts'
import type { Configuration } from './feeds/configuration.ts'

/**
 * Healthy while every component is: the counters, the configuration when it is asked for, and no end in
 * sight.
 */
export interface Health {
  healthy(): boolean
  /** Calls back with the present state at once, and after each change. */
  onChange(listener: (healthy: boolean) => void): void
  /** The process was told to end: unhealthy from now on. */
  terminate(): void
  terminating(): boolean
}

export interface HealthOptions {
  readonly counters: Pick<Counters, 'healthy' | 'onHealth'>
  readonly configuration: Pick<Configuration, 'rules' | 'onLoad'>
  /** Unhealthy without a domain: HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED. */
  readonly withConfig: boolean
}

export function createHealth(options: HealthOptions): Health {
  const { counters, configuration } = options
  const listeners: ((healthy: boolean) => void)[] = []
  let terminating = false
  let last = healthy()

  function healthy(): boolean {
    if (terminating || !counters.healthy) return false
    return !options.withConfig || (configuration.rules()?.domains.size ?? 0) > 0
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
    onChange(listener) {
      listeners.push(listener)
      listener(healthy())
    },
    terminate() {
      terminating = true
      changed()
    },
    terminating: () => terminating,
  }
}
