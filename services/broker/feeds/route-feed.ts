import { systemClock } from '@tollway/chassis/clock.ts'
import type { Log } from '@tollway/chassis/log/log.ts'
import type { FeedSettings } from '@tollway/discovery/feed-settings.ts'
import { openXdsFeed } from '@tollway/discovery/open-xds-feed.ts'
import { type FedRouteTable, streamRouteTypeUrl } from '../routes/route-table.ts'
import { createLoadReporter, type RouteLoad } from './report-load.ts'

/** Receives routes from the operator, and reports their load to it. */
export interface RouteFeed {
  start(): void
  stop(): Promise<void>
}

export interface RouteFeedOptions {
  readonly table: Pick<FedRouteTable, 'load'>
  /** The load of every route; see `LoadReporterOptions`. */
  readonly loads: () => readonly RouteLoad[]
  readonly log: Log
}

/**
 * Feeds the table from the management server of the settings, and reports over the same connection. Without
 * a `uid` in the node's metadata the operator could not identify the reporter, so no report is sent. Import
 * it only if there is a feed: the gRPC client takes 6 MiB.
 *
 * @throws Error that names the setting whose TLS file cannot be used.
 */
export function openRouteFeed(settings: FeedSettings, { table, loads, log }: RouteFeedOptions): RouteFeed {
  const { feed, connection } = openXdsFeed(settings, { typeUrl: streamRouteTypeUrl, load: table.load }, log)
  const uid = settings.xdsNodeMetadata.get('uid') ?? ''
  const reporter = createLoadReporter({
    ...{ connection, uid, loads, log },
    clock: systemClock,
    random: Math.random,
  })
  return {
    start() {
      feed.start()
      if (uid !== '') reporter.start()
    },
    async stop() {
      await reporter.stop()
      await feed.stop()
    },
  }
}
