import type { Log } from '@tollway/chassis/log/log.ts'
import type { BackendStats } from '../backend-stats.ts'
import type { BusyPollMode } from '../connections/busy-poll.ts'
import type { TlsOptions } from '../connections/connect-socket.ts'
import { followTlsFiles } from '../connections/follow-tls-files.ts'
import type { Counters } from '../counters.ts'
import { createMemcachedCounters } from './memcached.ts'

/** The settings of memcached, as `settings.ts` parses them. */
export interface MemcachedSettings {
  readonly backendDeadlineMs: number
  readonly backendBusyPoll: BusyPollMode
  readonly memcachedHostPort: string
  readonly memcachedSrv: string
  readonly memcachedSrvRefreshMs: number
  readonly memcachedAsyncIncrement: boolean
  readonly memcachedTls: boolean
  readonly memcachedTlsCertFile: string
  readonly memcachedTlsKeyFile: string
  readonly memcachedTlsCaFile: string
  readonly memcachedTlsSkipHostnameVerification: boolean
}

/**
 * Opens the counters in the memcached servers that the settings name.
 *
 * @throws Error that names the setting when an address or a file cannot be used.
 */
export function openMemcached(settings: MemcachedSettings, stats: BackendStats, log: Log): Counters {
  const tls = settings.memcachedTls ? openTls(settings, log) : undefined
  try {
    return createMemcachedCounters({
      hostPort: settings.memcachedHostPort,
      srv: settings.memcachedSrv,
      srvRefreshMs: settings.memcachedSrvRefreshMs,
      countAfterAnswer: settings.memcachedAsyncIncrement,
      deadlineMs: settings.backendDeadlineMs,
      busyPoll: settings.backendBusyPoll,
      stats,
      random: Math.random,
      onWarning: text => log.warn(text),
      onUncounted: (hits, problem) => log.warn('count hits: calls were answered without', { hits, problem }),
      ...(tls && { tls }),
    })
  } catch (error) {
    throw new Error(`MEMSTORE_HOST_PORT, MEMSTORE_SRV: ${(error as Error).message}`)
  }
}

function openTls(settings: MemcachedSettings, log: Log): () => TlsOptions {
  const files = {
    prefix: 'MEMSTORE_TLS_',
    certFile: settings.memcachedTlsCertFile,
    keyFile: settings.memcachedTlsKeyFile,
    caFile: settings.memcachedTlsCaFile,
    skipHostnameVerification: settings.memcachedTlsSkipHostnameVerification,
  }
  return followTlsFiles(files, log)
}
