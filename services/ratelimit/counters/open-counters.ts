import { systemClock } from '@tollway/chassis/clock.ts'
import type { Log } from '@tollway/chassis/log/log.ts'
import type { BackendStats } from './backend-stats.ts'
import type { BusyPollMode } from './connections/busy-poll.ts'
import { followTlsFiles, type TlsOptions } from './connections/connect-socket.ts'
import type { Counters } from './counters.ts'
import { createMemoryCounters } from './memory.ts'
import { PerSecondCounters } from './per-second-backend.ts'
import { createRedisCounters } from './redis/redis.ts'
import type { RedisCounters } from './redis/redis-setup.ts'

/** The settings that the counters need, with the names that they have in the table of all settings. */
export interface CountersSettings {
  readonly backendType: 'redis' | 'memory'
  readonly backendDeadlineMs: number
  readonly backendBusyPoll: BusyPollMode
  readonly stopIncrementWhenOverLimit: boolean
  readonly redisType: string
  readonly redisSocketType: 'unix' | 'tcp'
  readonly redisUrl: string
  readonly redisAuth: string
  readonly redisSentinelAuth: string
  readonly redisTls: boolean
  readonly redisTlsCaFile: string
  readonly redisTlsCertFile: string
  readonly redisTlsKeyFile: string
  readonly redisTlsSkipHostnameVerification: boolean
  readonly redisTimeoutMs: number
  readonly redisPipelineWindowMs: number
  readonly redisPipelineLimit: number
  readonly redisPerSecond: boolean
  readonly redisPerSecondType: string
  readonly redisPerSecondSocketType: 'unix' | 'tcp'
  readonly redisPerSecondUrl: string
  readonly redisPerSecondAuth: string
  readonly redisPerSecondSentinelAuth: string
  readonly redisPerSecondTls: boolean
  readonly redisPerSecondTimeoutMs: number
  readonly redisPerSecondPipelineWindowMs: number
  readonly redisPerSecondPipelineLimit: number
}

/**
 * Opens the counters in the backend that the settings name.
 *
 * @param stats where the connections' statistics are kept, separately for each Redis
 * @throws Error that names the setting when an address or a file cannot be used; it quotes no secret.
 */
export function openCounters(settings: CountersSettings, stats: BackendStats, log: Log): Counters {
  const { backendType, stopIncrementWhenOverLimit: stopWhenOver } = settings
  if (backendType === 'memory') return createMemoryCounters({ clock: systemClock, stopWhenOver })
  const open = (prefix: 'redis' | 'redisPerSecond') => openRedis(prefix, settings, stats, log)
  return settings.redisPerSecond
    ? new PerSecondCounters(open('redis'), open('redisPerSecond'), stopWhenOver)
    : open('redis')
}

/** @param prefix of the names of the settings: the main or the per-second Redis */
function openRedis(
  prefix: 'redis' | 'redisPerSecond',
  settings: CountersSettings,
  stats: BackendStats,
  log: Log,
): RedisCounters {
  const isMain = prefix === 'redis'
  // Both use the same files, as in envoyproxy/ratelimit.
  const tls = settings[`${prefix}Tls`] ? openTls(settings, log) : undefined
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

function openTls(settings: CountersSettings, log: Log): () => TlsOptions {
  const files = {
    prefix: 'KVSTORE_TLS_',
    certFile: settings.redisTlsCertFile,
    keyFile: settings.redisTlsKeyFile,
    caFile: settings.redisTlsCaFile,
    skipHostnameVerification: settings.redisTlsSkipHostnameVerification,
  }
  return followTlsFiles(files, log)
}
