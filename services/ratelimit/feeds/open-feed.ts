import { systemClock } from '@tollway/chassis/clock.ts'
import type { Log } from '@tollway/chassis/log.ts'
import type { Settings } from '../settings.ts'
import type { Stats } from '../stats/stats.ts'
import type { Configuration } from './configuration.ts'
import type { Feed } from './feed.ts'
import { createFileFeed } from './files.ts'
import { openLastGoodFile } from './last-good-file.ts'

const defaultMaxMessageBytes = 64 * 1024 * 1024

/**
 * The feed that the settings ask for. The gRPC client is loaded for the one that needs it: it takes 6 MiB.
 *
 * Rejects with an Error that names the setting when a file of TLS cannot be used.
 */
export async function openFeed(
  settings: Settings,
  configuration: Configuration,
  stats: Stats,
  log: Log,
): Promise<Feed> {
  if (settings.configType === 'FILE') {
    return createFileFeed({
      root: settings.runtimeRoot,
      subdirectory: settings.runtimeSubdirectory,
      appDirectory: settings.runtimeAppDirectory,
      ignoreDotFiles: settings.runtimeIgnoreDotFiles,
      watchRoot: settings.runtimeWatchRoot,
      configuration,
      stats,
      log,
    })
  }
  const maxMessageBytes = settings.xdsMaxMessageBytes || defaultMaxMessageBytes
  const { createXdsFeed } = await import('./xds.ts')
  return createXdsFeed({
    server: targetOf(settings.xdsServer),
    nodeId: settings.xdsNodeId,
    nodeMetadata: settings.xdsNodeMetadata,
    headers: settings.xdsHeaders,
    tls: settings.xdsUseTls ? await openTls(settings, log) : undefined,
    lastGoodFile:
      settings.lastGoodFile === ''
        ? undefined
        : openLastGoodFile({
            path: settings.lastGoodFile,
            maxBytes: maxMessageBytes,
            clock: systemClock,
            log,
          }),
    maxMessageBytes,
    connectRetryMs: settings.xdsConnectRetryMs,
    backoff: {
      initialMs: settings.xdsBackoffInitialMs,
      maxMs: settings.xdsBackoffMaxMs,
      factor: 1 + settings.xdsBackoffFactor,
      jitter: settings.xdsBackoffJitter ? 0.5 : 0,
    },
    random: Math.random,
    configuration,
    log,
  })
}

function targetOf({ host, port }: Settings['xdsServer']): string {
  return host.includes(':') ? `[${host}]:${port}` : `${host || 'localhost'}:${port}`
}

async function openTls(settings: Settings, log: Log) {
  const { openXdsTls } = await import('./xds-tls.ts')
  return openXdsTls({
    certFile: settings.xdsCertFile,
    keyFile: settings.xdsKeyFile,
    caFile: settings.xdsCaFile,
    subjectAltName: settings.xdsServerSan,
    host: settings.xdsServer.host || 'localhost',
    onWarning: text => log.warn(text),
  })
}
