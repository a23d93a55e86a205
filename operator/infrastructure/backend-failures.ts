import type { Infrastructure, Replica } from './provider.ts'

/** Tells which workloads have a failing backend (Redis, memcached, a database), as their replicas report. */
export type BackendFailures = ReturnType<typeof watchBackendFailures>

interface BackendFailuresOptions {
  readonly infrastructure: Pick<Infrastructure, 'observe' | 'onChange'>
  readonly workloads: readonly string[]
  /**
   * A failure is reported until this time after its end. Thousands of resources may depend on a backend; the
   * condition of each one then appears and disappears at most once in this time.
   */
  readonly holdMs?: number
}

const defaultHoldMs = 60_000

interface Failure {
  readonly message: string
  /** Ends the failure after `holdMs`; undefined while a replica still reports it. */
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
     * Returns the message of the condition Degraded while the workload's backend fails, and for `holdMs`
     * after that; otherwise undefined. The message is the same during one failure.
     */
    get: (workload: string): string | undefined => failures.get(workload)?.message,
    /** Calls the listener with a workload when the result of `get` changes for it. */
    onChange: (listener: (workload: string) => void) => void listeners.push(listener),
    stop(): void {
      for (const { end } of failures.values()) clearTimeout(end)
    },
  }
}

/** Returns the replicas that accept calls although their backend fails. */
export function failingReplicas(replicas: readonly Replica[]): readonly Replica[] {
  return replicas.filter(({ ready, backendProblem }) => ready && backendProblem !== undefined)
}

function describeFailure(workload: string, { name, backendProblem }: Replica): string {
  const advice = 'Calls get the answers of its failure modes; tollway status lists the processes concerned'
  return `The backend of ${workload} fails. ${name}: ${backendProblem}. ${advice}`
}
