import type { Log } from '@tollway/chassis/log/log.ts'
import type { Subscription } from '@tollway/xds-client/discovery-session.ts'
import type { FeedConnection } from '@tollway/xds-client/feed-connection.ts'
import { features } from '../rules/fields.ts'
import { rateLimitTypeUrl } from '../rules/model.ts'
import { formatProblem, maxFindingsOfKind } from '../rules/problems.ts'
import type { Settings } from '../settings.ts'
import type { Stats } from '../stats/stats.ts'
import type { ConfigFeed, Configuration } from './configuration.ts'
import { createFileFeed } from './files.ts'

interface OpenedFeed {
  readonly feed: ConfigFeed
  /** The connection to the management server, which the feed closes; undefined for files. */
  readonly connection: FeedConnection | undefined
}

/**
 * Opens the feed that the settings ask for. The gRPC client takes 6 MiB, so it is imported only if needed.
 *
 * Rejects with an Error that names the setting when a TLS file cannot be used.
 */
export async function openFeed(
  settings: Settings,
  configuration: Configuration,
  stats: Stats,
  log: Log,
): Promise<OpenedFeed> {
  if (settings.configType === 'FILE') {
    const feed = createFileFeed({
      root: settings.runtimeRoot,
      subdirectory: settings.runtimeSubdirectory,
      appDirectory: settings.runtimeAppDirectory,
      ignoreDotFiles: settings.runtimeIgnoreDotFiles,
      watchRoot: settings.runtimeWatchRoot,
      configuration,
      stats,
      log,
    })
    return { feed, connection: undefined }
  }
  const { openXdsFeed } = await import('@tollway/xds-client/open-xds-feed.ts')
  return openXdsFeed(settings, subscribe(configuration), log)
}

/** Returns the subscription that loads each response into the configuration. */
export function subscribe({ load }: Pick<Configuration, 'load'>): Subscription {
  return {
    typeUrl: rateLimitTypeUrl,
    features,
    async load({ typeUrl, resources }, hashes) {
      // Another thread may read the resources, and only plain objects can be sent to it.
      const plain = resources.map(({ typeUrl: type, value }) => ({ typeUrl: type, value }))
      const problems = await load({ from: 'response', typeUrl, resources: plain, hashes })
      return problems.slice(0, maxFindingsOfKind + 1).map(formatProblem)
    },
  }
}
