import { type Infrastructure, InfrastructureError } from '../../infrastructure/provider.ts'
import type { Workload } from '../../model.ts'

export interface FirstReadyOptions {
  readonly host: Pick<Infrastructure, 'observe' | 'onChange'>
  readonly workloads: readonly Pick<Workload, 'name'>[]
  readonly signal: AbortSignal
  /** The time limit of the processes, from the moment at which the feed carries resources. */
  readonly deadlineMs: number
  /** Whether the feed carries every kind of resource. Without it no process can be ready. */
  readonly isFeedPublished: () => boolean
  /** The end of the error's text. */
  readonly advice: string
}

/**
 * Resolves when every process accepts calls. Rejects with the signal's reason, and at the deadline with an
 * `InfrastructureError` that has the reason of each process. There is no deadline while the feed carries
 * nothing: then the cause is in the resources, not in the processes.
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
    const late = `no call can be taken after ${deadlineMs / 1000} s: ${reasons.join(', ')}`
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
