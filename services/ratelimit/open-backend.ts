import { systemClock } from '@tollway/chassis/clock.ts'
import type { Log } from '@tollway/chassis/log/log.ts'
import type { BackendStats } from './counters/backend-stats.ts'
import { followTlsFiles, type TlsOptions } from './counters/connections/connect-socket.ts'
import type { Counters } from './counters/counters.ts'
import { MemcachedCounters } from './counters/memcached/memcached.ts'
import { createMemoryCounters } from './counters/memory.ts'
import { PerSecondCounters } from './counters/per-second-backend.ts'
import { createRedisCounters } from './counters/redis/redis.ts'
import type { RedisCounters } from './counters/redis/redis-setup.ts'
import type { Settings } from './settings.ts'

/**
 * Opens the counters in the backend that the settings name.
 *
 * @param stats where the connections' statistics are kept, separately for each Redis
 * @throws Error that names the setting when an address or a file cannot be used; it quotes no secret.
 */
export function openBackend(settings: Settings, stats: BackendStats, log: Log): Counters {
  const { backendType, stopIncrementWhenOverLimit: stopWhenOver } = settings
  if (backendType === 'memory') return createMemoryCounters({ clock: systemClock, stopWhenOver })
  if (backendType === 'memcache') return openMemcached(settings, stats, log)
  const open = (prefix: RedisPrefix) => openRedis(prefix, settings, stats, log)
  return settings.redisPerSecond
    ? new PerSecondCounters(open('redis'), open('redisPerSecond'), stopWhenOver)
    : open('redis')
}

/** The beginning of the settings' names: of the main Redis, or of the Redis for limits per second. */
type RedisPrefix = 'redis' | 'redisPerSecond'

function openRedis(prefix: RedisPrefix, settings: Settings, stats: BackendStats, log: Log): RedisCounters {
  const isMain = prefix === 'redis'
  // Both Redis servers use the same files, as in envoyproxy/ratelimit.
  const tls = settings[`${prefix}Tls`] ? openRedisTls(settings, log) : undefined
  try {
    return createRedisCounters({
      pool: isMain ? 'redis_pool' : 'redis_per_second_pool',
      type: settings[`${prefix}Type`],
      url: settings[`${prefix}Url`],
      socketType: settings[`${prefix}SocketType`],
      auth: settings[`${prefix}Auth`],
      sentinelAuth: settings[`${prefix}SentinelAuth`],
      tls,
      stallTimeoutMs: settings[`${prefix}TimeoutMs`],
      pipelineWindowMs: settings[`${prefix}PipelineWindowMs`],
      pipelineLimit: settings[`${prefix}PipelineLimit`],
      stopWhenOver: settings.stopIncrementWhenOverLimit,
      deadlineMs: settings.backendDeadlineMs,
      busyPoll: settings.backendBusyPoll,
      stats,
      random: Math.random,
      onWarning: (message, fields) => log.warn(message, fields),
    })
  } catch (error) {
    throw new Error(`${isMain ? 'KVSTORE' : 'KVSTORE_PERSECOND'}_URL: ${(error as Error).message}`)
  }
}

function openRedisTls(settings: Settings, log: Log): () => TlsOptions {
  const files = {
    prefix: 'KVSTORE_TLS_',
    certFile: settings.redisTlsCertFile,
    keyFile: settings.redisTlsKeyFile,
    caFile: settings.redisTlsCaFile,
    skipHostnameVerification: settings.redisTlsSkipHostnameVerification,
  }
  return followTlsFiles(files, log)
}

function openMemcached(settings: Settings, stats: BackendStats, log: Log): MemcachedCounters {
  const tls = settings.memcachedTls ? openMemcachedTls(settings, log) : undefined
  try {
    return new MemcachedCounters({
      hostPort: settings.memcachedHostPort,
      srv: settings.memcachedSrv,
      srvRefreshMs: settings.memcachedSrvRefreshMs,
      countAfterAnswer: settings.memcachedAsyncIncrement,
      deadlineMs: settings.backendDeadlineMs,
      busyPoll: settings.backendBusyPoll,
      stats,
      random: Math.random,
      onWarning: (message, fields) => log.warn(message, fields),
      onUncounted: (hits, problem) => log.warn('count hits after answer failed', { hits, reason: problem }),
      tls,
    })
  } catch (error) {
    throw new Error(`MEMSTORE_HOST_PORT, MEMSTORE_SRV: ${(error as Error).message}`)
  }
}

function openMemcachedTls(settings: Settings, log: Log): () => TlsOptions {
  const files = {
    prefix: 'MEMSTORE_TLS_',
    certFile: settings.memcachedTlsCertFile,
    keyFile: settings.memcachedTlsKeyFile,
    caFile: settings.memcachedTlsCaFile,
    skipHostnameVerification: settings.memcachedTlsSkipHostnameVerification,
  }
  return followTlsFiles(files, log)
}
