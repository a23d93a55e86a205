import type { Server, ServerResponse } from 'node:http'
import type { ServiceHealth } from '@tollway/chassis/health/service-health.ts'
import { expositionType } from '@tollway/chassis/metrics/exposition-format.ts'
import { countsDrainingAsHealthy } from '@tollway/chassis/net/page.ts'
import { type BrokerStats, exposition, statEntries } from '../broker-stats.ts'
import { createPageServer, type FindPage, jsonType, type PageHandler, send } from './page-server.ts'
import { type StreamPagesOptions, streamPages, streamPagesHelp } from './stream-pages.ts'

export interface PagesOptions extends StreamPagesOptions {
  readonly stats: BrokerStats
  readonly health: Pick<ServiceHealth, 'problem' | 'acceptProblem'>
  /** Returns why the stream log fails; empty when it answers. */
  readonly backendProblem: () => string
}

type ProbeOptions = Pick<PagesOptions, 'stats' | 'health' | 'backendProblem'>

const help = `/backend: whether the stream log answers, or the cause why not
/healthcheck: whether this process takes calls; ?draining=ok ignores a shutdown
/livez: whether this process is alive
/metrics: all numbers in Prometheus' text format
/stats: all numbers; ?format=json for JSON
${streamPagesHelp}`

/** Creates a server with pages for operators, and the interruption of streams; `/` lists the pages. */
export function createDebugServer(options: PagesOptions): Server {
  const pages = new Map<string, PageHandler>([
    ...probePages(options),
    ['/', (_, response) => send(response, 200, help)],
    ['/stats', (_, response, query) => sendStats(options.stats, response, query)],
  ])
  const findStreams = streamPages(options)
  const find: FindPage = (path, method) =>
    findStreams(path, method) ?? (method === 'DELETE' ? undefined : pages.get(path))
  return createPageServer(find, `no such page. The pages are:\n${help.trimEnd()}`)
}

/** Creates a server with metrics and health only, for a port that other hosts can reach. */
export function createMetricsServer(options: ProbeOptions): Server {
  const pages = probePages(options)
  return createPageServer(
    path => pages.get(path),
    `no such page. The pages are ${[...pages.keys()].join(', ')}`,
  )
}

function probePages({ stats, health, backendProblem }: ProbeOptions): ReadonlyMap<string, PageHandler> {
  return new Map<string, PageHandler>([
    ['/metrics', (_, response) => send(response, 200, exposition(stats), expositionType)],
    [
      '/backend',
      (_, response) => {
        const problem = backendProblem()
        if (problem === '') send(response, 200, 'OK')
        else send(response, 503, `${problem}\n`)
      },
    ],
    ['/livez', (_, response) => send(response, 200, 'alive\n')],
    [
      '/healthcheck',
      (_, response, query) => {
        const problem = countsDrainingAsHealthy(query) ? health.acceptProblem : health.problem
        if (problem === '') send(response, 200, 'OK')
        else send(response, 500, `${problem}\n`)
      },
    ],
  ])
}

function sendStats(stats: BrokerStats, response: ServerResponse, query: URLSearchParams): void {
  const entries = statEntries(stats)
  if (query.get('format') === 'json') {
    send(response, 200, `${JSON.stringify(Object.fromEntries(entries))}\n`, jsonType)
  } else {
    send(response, 200, entries.map(([name, value]) => `${name}: ${value}\n`).join(''))
  }
}
