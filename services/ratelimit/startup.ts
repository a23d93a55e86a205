import type { Log } from '@tollway/chassis/log/log.ts'
import type { Configuration } from './config/configuration.ts'
import type { Counters } from './counters/counters.ts'
import type { FailureMode } from './limiter/counting.ts'

/** The shortest wait that is logged. */
const quietWaitMs = 1_000

/** The interval at which the reason for a wait is checked, because its text changes without an event. */
const checkIntervalMs = 1_000

interface StartupOptions {
  readonly configuration: Pick<Configuration, 'rules' | 'onLoad'>
  readonly counters: Pick<Counters, 'healthy' | 'problem' | 'onHealth'>
  /** FORCE_START_WITHOUT_INITIAL_CONFIG: calls are accepted without a configuration. */
  readonly forceStart: boolean
  readonly backendFailureMode: FailureMode
  readonly log: Log
  /** Called with the reason for the wait at once, and again whenever the reason changes. */
  onWait(reason: string): void
}

/**
 * Resolves when the first configuration is loaded and the backend has answered once; at once if that is
 * already so. envoyproxy/ratelimit also waits for both.
 *
 * With a failure mode other than `error`, the settings define the answer to calls that cannot be counted,
 * from the first call on. The backend is not waited for then. The process is still unhealthy until the
 * backend has answered once.
 */
export async function waitUntilReady(options: StartupOptions): Promise<void> {
  const { promise: ready, resolve } = Promise.withResolvers<void>()
  let last = ''
  const check = () => {
    const reason = waitReason(options)
    if (reason === '') resolve()
    else if (reason !== last) options.onWait(reason)
    last = reason
  }
  options.configuration.onLoad(check)
  options.counters.onHealth(check)
  const checks = setInterval(check, checkIntervalMs)
  const warning = setTimeout(() => {
    options.log.warn('wait for readiness', { reason: `the service ${waitReason(options)}` })
  }, quietWaitMs)
  check()
  await ready
  clearInterval(checks)
  clearTimeout(warning)
}

function waitReason({ configuration, counters, forceStart, backendFailureMode }: StartupOptions): string {
  if (!forceStart && configuration.rules() === undefined) return 'waits for its configuration'
  if (counters.healthy || backendFailureMode !== 'error') return ''
  return `waits for the backend of its counters: ${counters.problem}`
}
