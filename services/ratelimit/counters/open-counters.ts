import { systemClock } from '@tollway/chassis/clock.ts'
import type { Log } from '@tollway/chassis/log/log.ts'
import type { BackendStats } from './backend-stats.ts'
import type { BusyPollMode } from './connections/busy-poll.ts'
import { followTlsFiles, type TlsOptions } from './connections/connect-socket.ts'
import type { Counters } from './counters.ts'
import { createMemoryCounters } from './memory.ts'
import { createPerSecondCounters } from './per-second-backend.ts'
import { createRedisCounters } from './redis/redis.ts'
import type { RedisCountersOptions } from './redis/redis-setup.ts'

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
  const shared = { ...sharedOptions(settings, log), stats }
  const counters = openRedis('KVSTORE', { ...shared, ...instance(settings, log) })
  if (!settings.redisPerSecond) return counters
  const perSecond = openRedis('KVSTORE_PERSECOND', { ...shared, ...perSecondInstance(settings, log) })
  return createPerSecondCounters({ counters, perSecond, stopWhenOver })
}

type SharedOptions = Omit<RedisCountersOptions, 'url'>
type InstanceOptions = Pick<RedisCountersOptions, 'url'> & Partial<RedisCountersOptions>

function sharedOptions(settings: CountersSettings, log: Log): SharedOptions {
  return {
    stopWhenOver: settings.stopIncrementWhenOverLimit,
    deadlineMs: settings.backendDeadlineMs,
    busyPoll: settings.backendBusyPoll,
    random: Math.random,
    onWarning: (message, fields) => log.warn(message, fields),
  }
}

/** The main and the per-second Redis use the same files, as in envoyproxy/ratelimit. */
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

function instance(settings: CountersSettings, log: Log): InstanceOptions {
  return {
    pool: 'redis_pool',
    type: settings.redisType,
    url: settings.redisUrl,
    socketType: settings.redisSocketType,
    auth: settings.redisAuth,
    sentinelAuth: settings.redisSentinelAuth,
    stallTimeoutMs: settings.redisTimeoutMs,
    pipelineWindowMs: settings.redisPipelineWindowMs,
    pipelineLimit: settings.redisPipelineLimit,
    ...(settings.redisTls ? { tls: openTls(settings, log) } : {}),
  }
}

function perSecondInstance(settings: CountersSettings, log: Log): InstanceOptions {
  return {
    pool: 'redis_per_second_pool',
    type: settings.redisPerSecondType,
    url: settings.redisPerSecondUrl,
    socketType: settings.redisPerSecondSocketType,
    auth: settings.redisPerSecondAuth,
    sentinelAuth: settings.redisPerSecondSentinelAuth,
    stallTimeoutMs: settings.redisPerSecondTimeoutMs,
    pipelineWindowMs: settings.redisPerSecondPipelineWindowMs,
    pipelineLimit: settings.redisPerSecondPipelineLimit,
    ...(settings.redisPerSecondTls ? { tls: openTls(settings, log) } : {}),
  }
}

function openRedis(prefix: string, options: RedisCountersOptions) {
  try {
    return createRedisCounters(options)
  } catch (error) {
    throw new Error(`${prefix}_URL: ${(error as Error).message}`)
  }
}
