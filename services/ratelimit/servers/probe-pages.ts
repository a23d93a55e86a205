import { countsDrainingAsHealthy } from '@tollway/chassis/net/page.ts'

/** The answer to a probe. */
export interface ProbeAnswer {
  readonly status: number
  readonly body: string
}

/** Answers a probe of this path; undefined for any other path. */
export type ProbePages = (path: string, query: URLSearchParams) => ProbeAnswer | undefined

/** The problems that probes report; each text is empty when there is none. */
export interface ProbedProblems {
  /** Returns the reason why the process is unhealthy. */
  problem(): string
  /** Returns the same while the process accepts calls, except that a shutdown is no problem. */
  acceptProblem(): string
  /** Returns the cause of a failure of the backend. */
  backendProblem(): string
}

/**
 * Creates the pages for probes, on the ports that are open from the start of the process to its end.
 *
 * `/livez` answers 200 while the process runs: a restart does not help a process that waits for its
 * configuration or its backend. `/healthcheck` answers like the same path on the port for calls, which opens
 * only when the process can accept calls; a failure has the reason. `/backend` answers 503 with the cause
 * while the backend of the counters fails; the process stays healthy meanwhile.
 */
export function createProbePages({ problem, acceptProblem, backendProblem }: ProbedProblems): ProbePages {
  return (path, query) => {
    if (path === '/livez') return { status: 200, body: 'alive\n' }
    if (path === '/backend') return answer(backendProblem(), 503)
    if (path !== '/healthcheck') return undefined
    return answer(countsDrainingAsHealthy(query) ? acceptProblem() : problem(), 500)
  }
}

function answer(problem: string, status: number): ProbeAnswer {
  return problem === '' ? { status: 200, body: 'OK' } : { status, body: `${problem}\n` }
}
