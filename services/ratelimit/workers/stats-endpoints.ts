import type { RequestListener } from 'node:http'
import { systemClock } from '@tollway/chassis/clock.ts'
import type { Log } from '@tollway/chassis/log/log.ts'
import { createGuardedServer } from '@tollway/chassis/net/guarded-server.ts'
import { closeHttp, listenHttp } from '@tollway/chassis/net/listen-http.ts'
import { openSink } from '../open-sink.ts'
import { createProbePages, debugListener, type ProbedProblems } from '../servers/debug.ts'
import type { Settings } from '../settings.ts'
import type { Stats } from '../stats/stats.ts'
import type { Question } from './messages.ts'

interface StatsEndpointsOptions extends ProbedProblems {
  readonly stats: Stats
  /** Returns the active configuration, one limit per line. */
  readonly rules: () => string
  readonly log: Log
  /** Updates the values before they are shown; left out where they are always current. Must not reject. */
  readonly refresh?: (what: Question) => Promise<void>
}

/**
 * Opens the servers that a service has once for all its processes: the debug server and the sink of its
 * statistics. They are open from the start, so that probes are answered while the service waits for its
 * configuration or its backend. Rejects with a system error when the debug server's address cannot be bound,
 * and with the errors of `openSink`.
 */
export async function openStatsEndpoints(
  settings: Settings,
  { stats, rules, log, refresh, ...problems }: StatsEndpointsOptions,
): Promise<{ stop(): Promise<void> }> {
  const probes = createProbePages(problems)
  const pages = debugListener({ stats, rules, clock: systemClock, probes })
  const debug = createGuardedServer(refresh === undefined ? pages : withRefresh(pages, refresh))
  await listenHttp(debug, { host: settings.debugHost, port: settings.debugPort })
  const sink = await openSink(settings, {
    stats,
    log,
    env: process.env,
    random: Math.random,
    probe: probes,
    write: text => process.stdout.write(text),
    ...(refresh && { refresh: () => refresh('statistics') }),
  })
  return {
    async stop() {
      await sink.stop()
      await closeHttp(debug, 0)
    },
  }
}

/** Updates the values of a page before the page answers. Probes are not delayed. */
function withRefresh(pages: RequestListener, refresh: (what: Question) => Promise<void>): RequestListener {
  return (request, response) => {
    const { url = '' } = request
    const answer = () => pages(request, response)
    if (url.startsWith('/rlconfig')) void refresh('rules').then(answer)
    else if (url.startsWith('/stats')) void refresh('statistics').then(answer)
    else answer()
  }
}
