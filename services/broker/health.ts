import { ServiceHealth } from '@tollway/chassis/health/service-health.ts'
import { BackendWatch } from '@tollway/chassis/health/watch-backend.ts'
import { reportBackend } from '@tollway/chassis/lifecycle.ts'
import type { Log } from '@tollway/chassis/log/log.ts'
import type { StreamLog } from './stream-log/stream-log.ts'

/**
 * Creates the health of a broker: healthy when the log has answered once, the routes are loaded, and the
 * process is not stopping. A log that fails later does not count: all brokers of a Redis would be out of
 * service at once, while callers get an error that names the cause.
 */
export function createBrokerHealth(log: Pick<StreamLog, 'healthy' | 'problem' | 'onHealth'>): ServiceHealth {
  let answered = log.healthy
  const health = new ServiceHealth(isServing => {
    if (!isServing) return 'has no routes yet'
    return answered ? '' : `the stream log is unavailable: ${log.problem}`
  })
  log.onHealth(healthy => {
    answered ||= healthy
    health.check()
  })
  return health
}

/** A log that is not healthy after this time is logged, because no change of health reports it. */
const firstHealthMs = 2_000

/** Logs failures of the stream log, and reports them to the parent process. */
export class StreamLogHealth {
  readonly #streamLog: StreamLog
  /** Undefined until the log has answered: before that the process is not ready. */
  #watch: BackendWatch | undefined

  constructor(streamLog: StreamLog) {
    this.#streamLog = streamLog
  }

  /** Why the log fails; empty while it answers. */
  get problem(): string {
    return this.#watch?.problem ?? ''
  }

  /** Logs each change of health, and a log that does not answer at the start. */
  logChanges(log: Log): void {
    const streamLog = this.#streamLog
    const warn = () => log.warn('reach stream log failed', { reason: streamLog.problem })
    streamLog.onHealth(healthy => {
      if (healthy) log.info('reach stream log')
      else warn()
    })
    setTimeout(() => {
      if (!streamLog.healthy) warn()
    }, firstHealthMs).unref()
  }

  /** A further call changes nothing. */
  startReports(): void {
    if (this.#watch !== undefined) return
    const streamLog = this.#streamLog
    const watch = new BackendWatch({
      async probe() {
        if (!streamLog.healthy) throw new Error(streamLog.problem)
      },
      onChange: reportBackend,
    })
    streamLog.onHealth(watch.probeNow)
    this.#watch = watch
  }

  stop(): void {
    this.#watch?.stop()
  }
}
