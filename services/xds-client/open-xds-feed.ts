import { systemClock } from '@tollway/chassis/clock.ts'
import type { Log } from '@tollway/chassis/log/log.ts'
import type { Subscription } from './discovery-session.ts'
import { FeedConnection } from './feed-connection.ts'
import type { FeedSettings } from './feed-settings.ts'
import { LastGoodFile } from './last-good-file.ts'
import { XdsFeed } from './xds-feed.ts'
import { openXdsTls } from './xds-tls.ts'

const defaultMaxMessageBytes = 64 * 1024 * 1024

/**
 * Opens the feed. Other calls may use its connection until the feed closes it. Import this module only when
 * there is a feed: the gRPC client takes 6 MiB.
 *
 * @throws Error that names the setting whose TLS file cannot be used
 */
export function openXdsFeed(
  settings: FeedSettings,
  subscription: Subscription,
  log: Log,
): { readonly feed: XdsFeed; readonly connection: FeedConnection } {
  const onReloadFailed = (reason: string) => log.warn('reload certificates failed', { reason })
  const maxMessageBytes = settings.xdsMaxMessageBytes || defaultMaxMessageBytes
  const connection = new FeedConnection({
    server: formatTarget(settings.xdsServer),
    metadata: settings.xdsHeaders,
    tls: settings.xdsUseTls ? openXdsTls(settings, onReloadFailed) : undefined,
    maxReceiveBytes: maxMessageBytes,
    keepaliveMs: settings.xdsKeepaliveMs || undefined,
    keepaliveTimeoutMs: settings.xdsKeepaliveTimeoutMs,
    log,
  })
  const { features = [], ...load } = subscription
  const nodeMetadata = new Map(settings.xdsNodeMetadata)
  if (features.length > 0) nodeMetadata.set('tollway.features', features.join(','))
  const feed = new XdsFeed({
    ...load,
    connection,
    nodeId: settings.xdsNodeId,
    nodeMetadata,
    lastGoodFile: openFile(settings.lastGoodFile, maxMessageBytes, log),
    connectRetryMs: settings.xdsConnectRetryMs,
    backoff: {
      initialMs: settings.xdsBackoffInitialMs,
      maxMs: settings.xdsBackoffMaxMs,
      factor: 1 + settings.xdsBackoffFactor,
      jitter: settings.xdsBackoffJitter ? 0.5 : 0,
    },
    random: Math.random,
    clock: systemClock,
    log,
  })
  return { feed, connection }
}

function openFile(path: string, maxBytes: number, log: Log): LastGoodFile | undefined {
  return path === '' ? undefined : new LastGoodFile({ path, maxBytes, clock: systemClock, log })
}

function formatTarget({ host, port }: FeedSettings['xdsServer']): string {
  return host.includes(':') ? `[${host}]:${port}` : `${host || 'localhost'}:${port}`
}
