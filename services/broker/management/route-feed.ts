import { systemClock } from '@tollway/chassis/clock.ts'
import type { Log } from '@tollway/chassis/log/log.ts'
import type { FeedSettings } from '@tollway/xds-client/feed-settings.ts'
import { openXdsFeed } from '@tollway/xds-client/open-xds-feed.ts'
import { type RouteTable, routeTypeUrl } from '../routes/route-table.ts'
import { type BrokerPages, createOperatorAnswers } from './answer-operator.ts'
import { createLoadReporter, type LocalRouteLoad } from './report-load.ts'

export interface RouteFeedOptions {
  readonly table: Pick<RouteTable, 'load'>
  /** See `LoadReporterOptions.loads`. */
  readonly loads: () => readonly LocalRouteLoad[]
  readonly pages: BrokerPages
  readonly log: Log
}

/** Receives routes, reports their load, and answers requests about streams. */
export type RouteFeed = ReturnType<typeof openRouteFeed>

/**
 * Loads routes from the management server into the table. Reports over the same connection, but only if the
 * node's metadata has a `uid`, by which the operator knows this broker. Import this module only for a feed:
 * the gRPC client takes 6 MiB.
 *
 * @throws Error that names the setting whose TLS file cannot be used
 */
export function openRouteFeed(settings: FeedSettings, { table, loads, pages, log }: RouteFeedOptions) {
  const { feed, connection } = openXdsFeed(
    settings,
    { typeUrl: routeTypeUrl, load: response => table.load(response) },
    log,
  )
  const text = (name: string) => settings.xdsNodeMetadata.get(name) ?? ''
  const identity = { uid: text('uid'), pod: text('pod'), namespace: text('namespace') }
  const parts = { connection, clock: systemClock, random: Math.random, log }
  const calls = [
    createLoadReporter({ ...parts, uid: identity.uid, loads }),
    createOperatorAnswers({ ...parts, identity, pages }),
  ]
  return {
    start(): void {
      feed.start()
      if (identity.uid !== '') for (const call of calls) call.start()
    },
    async stop(): Promise<void> {
      await Promise.all(calls.map(call => call.stop()))
      await feed.stop()
    },
  }
}
