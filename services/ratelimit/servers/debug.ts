import type { RequestListener } from 'node:http'
import type { Clock } from '@tollway/chassis/clock.ts'
import { countsDrainingAsHealthy, parseTarget, sendPage } from '@tollway/chassis/net/page.ts'
import { escapeControls } from '../rules/problems.ts'
import type { Stats } from '../stats/stats.ts'
import { createProfilePages, type DebugPage } from './profile-pages.ts'

interface DebugServerOptions {
  readonly stats: Stats
  /** Returns the active configuration, one limit per line. */
  readonly rules: () => string
  readonly clock: Clock
  readonly probes: ProbePages
}

/** Returns the listener of the debug server: pages of text, and profiles; `/` lists them. */
export function debugListener(options: DebugServerOptions): RequestListener {
  const probe = (path: string, help: string): DebugPage => ({
    help,
    show(query, response) {
      const { status = 404, body = '' } = options.probes(path, query) ?? {}
      sendPage(response, status, body)
    },
  })
  const pages: Readonly<Record<string, DebugPage>> = {
    ...createProfilePages(options.clock),
    '/backend': probe('/backend', 'whether the backend of the counters answers, or the cause why not'),
    '/healthcheck': probe(
      '/healthcheck',
      'whether calls can be answered, or the reason why not; ?draining=ok ignores a shutdown',
    ),
    '/livez': probe('/livez', 'whether the process runs'),
    '/rlconfig': {
      help: 'print out the currently loaded configuration for debugging',
      show: (_, response) => sendPage(response, 200, options.rules()),
    },
    '/stats': {
      help: 'print out stats; ?format=json for JSON',
      show: (query, response) => {
        const entries = options.stats.entries()
        if (query.get('format') !== 'json') {
          const lines = entries.map(({ name, value }) => `${escapeControls(name)}: ${value}\n`)
          return sendPage(response, 200, lines.join(''))
        }
        const body = JSON.stringify(Object.fromEntries(entries.map(({ name, value }) => [name, value])))
        sendPage(response, 200, `${body}\n`, 'application/json')
      },
    },
  }
  const index = Object.keys(pages)
    .sort()
    .map(path => `${path}: ${pages[path]?.help}\n`)
    .join('')
  return (request, response) => {
    const { path, query } = parseTarget(request)
    if (path === '/') return sendPage(response, 200, index)
    const page = Object.hasOwn(pages, path) ? pages[path] : undefined
    if (page === undefined) return sendPage(response, 404, `page not found; the pages are:\n${index}`)
    page.show(query, response)
  }
}

interface ProbeAnswer {
  readonly status: number
  readonly body: string
}

/** Returns the answer to a probe of this path; undefined for any other path. */
type ProbePages = (path: string, query: URLSearchParams) => ProbeAnswer | undefined

/** The problems that probes report; each text is empty when there is none. */
export interface ProbedProblems {
  problem(): string
  /** Like `problem`, except that a shutdown is no problem until the ports for calls close. */
  acceptProblem(): string
  backendProblem(): string
}

/**
 * Creates the pages for probes, on the ports that are open from the start of the process to its end.
 *
 * `/livez` answers 200 while the process runs: a restart does not help a process that waits for its
 * configuration or its backend. `/healthcheck` answers like the same path on the port for calls, which opens
 * only when the process can accept calls; the body of a failure is the reason. `/backend` answers 503 with
 * the cause while the backend of the counters fails; the process stays healthy meanwhile.
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
