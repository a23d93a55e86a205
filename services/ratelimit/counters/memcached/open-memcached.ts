import type { Log } from '@tollway/chassis/log.ts'
import { openTlsFiles } from '@tollway/chassis/tls.ts'
import type { Counters } from '../counters.ts'
import { createMemcachedCounters } from '../memcached.ts'
import type { TlsOptions } from '../resp/session.ts'

/** The settings of memcached, as `settings.ts` reads them. */
export interface MemcachedSettings {
  readonly backendDeadlineMs: number
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
 * The counters in the memcached servers that the settings name.
 *
 * @throws Error that names the setting when an address or a file cannot be used.
 */
export function openMemcached(settings: MemcachedSettings, log: Log): Counters {
  const tls = settings.memcachedTls ? openTls(settings, log) : undefined
  try {
    return createMemcachedCounters({
      hostPort: settings.memcachedHostPort,
      srv: settings.memcachedSrv,
      srvRefreshMs: settings.memcachedSrvRefreshMs,
      countAfterAnswer: settings.memcachedAsyncIncrement,
      deadlineMs: settings.backendDeadlineMs,
      random: Math.random,
      onWarning: text => log.warn(text),
      onUncounted: (hits, problem) => log.warn('hits were answered and not counted', { hits, problem }),
      ...(tls && { tls }),
    })
  } catch (error) {
    throw new Error(`MEMSTORE_HOST_PORT, MEMSTORE_SRV: ${(error as Error).message}`)
  }
}

/** Asked for each connection, so that renewed files hold for the next one. */
function openTls(settings: MemcachedSettings, log: Log): () => TlsOptions {
  const files = openTlsFiles({
    cert: { setting: 'MEMSTORE_TLS_CLIENT_CERT', path: settings.memcachedTlsCertFile },
    key: { setting: 'MEMSTORE_TLS_CLIENT_KEY', path: settings.memcachedTlsKeyFile },
    ca: { setting: 'MEMSTORE_TLS_CACERT', path: settings.memcachedTlsCaFile },
    onWarning: text => log.warn(text),
  })
  return () => {
    const { identity, ca } = files.credentials()
    return {
      ...identity,
      ...(ca !== undefined && { ca }),
      verifyName: !settings.memcachedTlsSkipHostnameVerification,
    }
  }
}
