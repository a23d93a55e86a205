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
 * only when the process can accept calls; a failure has the reason. `/backend` answers 503 with the cause
 * while the backend of the counters fails; the process stays healthy meanwhile.
 *
 * @param problem returns the reason why the process is unhealthy; empty when it is healthy
 * @param backendProblem returns the cause of a failure of the backend; empty when it answers
 */
export function createProbePages(problem: () => string, backendProblem: () => string): ProbePages {
  return path => {
    if (path === '/livez') return { status: 200, body: 'alive\n' }
    if (path === '/backend') return answer(backendProblem(), 503)
    return path === '/healthcheck' ? answer(problem(), 500) : undefined
  }
}

function answer(problem: string, status: number): ProbeAnswer {
  return problem === '' ? { status: 200, body: 'OK' } : { status, body: `${problem}\n` }
}
