import { systemClock } from '@tollway/chassis/clock.ts'
import type { Log } from '@tollway/chassis/log.ts'
import type { FeedSettings } from '@tollway/discovery/feed-settings.ts'
import { openXdsFeed } from '@tollway/discovery/open-xds-feed.ts'
import { type FedRouteTable, streamRouteTypeUrl } from '../routes/route-table.ts'
import { createLoadReporter, type RouteLoad } from './report-load.ts'

/** Routes from the operator, and what they carry to it. */
export interface RouteFeed {
  start(): void
  stop(): Promise<void>
}

export interface RouteFeedOptions {
  readonly table: Pick<FedRouteTable, 'load'>
  /** As `LoadReporterOptions` has it. */
  readonly loads: () => readonly RouteLoad[]
  readonly log: Log
}

/**
 * Loads the table with what the management server of the settings says, and reports over the same connection.
 * Where the node's metadata have no `uid` nobody could tell whose report it is, so that there is none. To be
 * imported only when there is a feed: the gRPC client takes 6 MiB.
 *
 * @throws Error that names the setting whose file of TLS cannot be used.
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
