import type { Infrastructure, Replica } from './provider.ts'

/** Failures of the backends of workloads (Redis, memcached, a database), as their replicas report them. */
export type BackendFailures = ReturnType<typeof watchBackendFailures>

interface BackendFailuresOptions {
  readonly infrastructure: Pick<Infrastructure, 'observe' | 'onChange'>
  readonly workloads: readonly string[]
  /**
   * The condition stays for this time after the last failure. It bounds the rate of status writes: a
   * condition appears and disappears once in this time at most, for each of thousands of resources.
   */
  readonly holdMs?: number
}

const defaultHoldMs = 60_000

interface Failure {
  readonly message: string
  /** The timer that ends the failure; undefined while a replica still reports it. */
  end: NodeJS.Timeout | undefined
}

export function watchBackendFailures(options: BackendFailuresOptions) {
  const { infrastructure, workloads, holdMs = defaultHoldMs } = options
  const failures = new Map<string, Failure>()
  const listeners: ((workload: string) => void)[] = []

  function notify(workload: string): void {
    for (const listener of listeners) listener(workload)
  }

  function check(workload: string): void {
    const failing = failingReplicas(infrastructure.observe(workload))[0]
    const known = failures.get(workload)
    if (failing !== undefined && known !== undefined) {
      clearTimeout(known.end)
      known.end = undefined
    } else if (failing !== undefined) {
      failures.set(workload, { message: describeFailure(workload, failing), end: undefined })
      notify(workload)
    } else if (known !== undefined) {
      known.end ??= setTimeout(forget, holdMs, workload).unref()
    }
  }

  function forget(workload: string): void {
    failures.delete(workload)
    notify(workload)
  }

  infrastructure.onChange(workload => {
    if (workloads.includes(workload)) check(workload)
  })
  for (const workload of workloads) check(workload)
  return {
    /**
     * Returns the message of a condition while the backend of the workload fails, and for `holdMs` after that.
     * The text does not change during one failure.
     */
    get: (workload: string): string | undefined => failures.get(workload)?.message,
    /** Called when the answer of `of` changes. */
    onChange: (listener: (workload: string) => void) => void listeners.push(listener),
    stop(): void {
      for (const { end } of failures.values()) clearTimeout(end)
    },
  }
}

/** Returns the replicas that accept calls and cannot reach their backend. */
export function failingReplicas(replicas: readonly Replica[]): readonly Replica[] {
  return replicas.filter(({ ready, backendProblem }) => ready && backendProblem !== undefined)
}

function describeFailure(workload: string, { name, backendProblem }: Replica): string {
  const advice = 'Calls get the answers of its failure modes; tollway status lists the processes concerned'
  return `The backend of ${workload} fails. ${name}: ${backendProblem}. ${advice}`
}
