import { type Infrastructure, InfrastructureError } from '../../infrastructure/provider.ts'
import type { Workload } from '../../model.ts'

interface FirstReadyOptions {
  readonly host: Pick<Infrastructure, 'observe' | 'onChange'>
  readonly workloads: readonly Pick<Workload, 'name'>[]
  readonly signal: AbortSignal
  /**
   * How long the processes may take to become ready. The time starts again while the feed carries nothing.
   */
  readonly deadlineMs: number
  /** Returns whether the feed carries every kind of resource. Until then no process can become ready. */
  readonly isFeedPublished: () => boolean
  /** The end of the error message. */
  readonly advice: string
}

/**
 * Resolves when every process accepts calls. Rejects with the reason of the signal, and after `deadlineMs`
 * with an `InfrastructureError` that has the reason of each process. While the feed carries nothing there is
 * no deadline, because then the cause is in the resources and not in the processes.
 */
export function firstReady(options: FirstReadyOptions): Promise<void> {
  const { host, workloads, signal, deadlineMs, isFeedPublished, advice } = options
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  const expire = () => {
    if (!isFeedPublished()) {
      timer.refresh()
      return
    }
    const reasons = workloads
      .flatMap(({ name }) => host.observe(name))
      .map(({ name, reason }) => `${name}: ${reason || 'ready'}`)
    const late = `the services do not accept calls after ${deadlineMs / 1000} s: ${reasons.join(', ')}`
    reject(new InfrastructureError(`${late}; ${advice}`))
  }
  const timer = setTimeout(expire, deadlineMs)
  const isReady = ({ name }: Pick<Workload, 'name'>) => {
    const replicas = host.observe(name)
    return replicas.length > 0 && replicas.every(({ ready }) => ready)
  }
  const check = () => {
    if (signal.aborted) reject(signal.reason)
    if (workloads.every(isReady)) resolve()
  }
  signal.addEventListener('abort', check)
  host.onChange(check)
  check()
  return promise.finally(() => clearTimeout(timer))
}
