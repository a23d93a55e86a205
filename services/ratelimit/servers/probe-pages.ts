/** The answer to a probe. */
export interface ProbeAnswer {
  readonly status: number
  readonly body: string
}

/** Answers a probe of this path; undefined for any other path. */
export type ProbePages = (path: string) => ProbeAnswer | undefined

/**
 * Creates the pages for probes, on the ports that are open from the start of the process to its end.
 *
 * `/livez` answers 200 while the process runs: a restart does not help a process that waits for its
 * configuration or its backend. `/healthcheck` answers like the same path on the port for calls, which opens
 * only when the process can accept calls; a failure has the reason.
 *
 * @param problem returns the reason why the process is unhealthy; empty when it is healthy
 */
export function createProbePages(problem: () => string): ProbePages {
  return path => {
    if (path === '/livez') return { status: 200, body: 'alive\n' }
    if (path !== '/healthcheck') return undefined
    const reason = problem()
    return reason === '' ? { status: 200, body: 'OK' } : { status: 500, body: `${reason}\n` }
  }
}
