import type { Server } from 'node:http'
import { systemClock } from '@tollway/chassis/clock.ts'
import { closeHttp, listenHttp } from '@tollway/chassis/listen-http.ts'
import type { Log } from '@tollway/chassis/log.ts'
import { createServer } from '@tollway/chassis/node-http.ts'
import { createDebugServer } from '../servers/debug.ts'
import type { Settings } from '../settings.ts'
import { openSink } from '../stats/open-sink.ts'
import type { Stats } from '../stats/stats.ts'
import type { Question } from './messages.ts'

export interface OutletOptions {
  readonly stats: Stats
  /** The configuration in force, one limit a line. */
  readonly rules: () => string
  readonly log: Log
  /** Waited for before something is shown; left out where all is always new. It must not reject. */
  readonly refresh?: (what: Question) => Promise<void>
}

/**
 * Opens what there is once for a service, however many processes it has: the debug server and the sink of its
 * statistics. Rejects with a system error when the debug server's address cannot be bound, and as `openSink`.
 */
export async function openOutlets(
  settings: Settings,
  { stats, rules, log, refresh }: OutletOptions,
): Promise<{ stop(): Promise<void> }> {
  const pages = createDebugServer({ stats, rules, clock: systemClock })
  const debug = refresh === undefined ? pages : refreshed(pages, refresh)
  await listenHttp(debug, { host: settings.debugHost, port: settings.debugPort })
  const sink = await openSink(settings, {
    stats,
    log,
    env: process.env,
    random: Math.random,
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

/** Lets the pages answer when what the page shows is new. */
function refreshed(pages: Server, refresh: (what: Question) => Promise<void>): Server {
  return createServer((request, response) => {
    const isRules = request.url?.startsWith('/rlconfig') === true
    refresh(isRules ? 'rules' : 'statistics').then(() => pages.emit('request', request, response))
  })
}
