import { systemClock } from '@tollway/chassis/clock.ts'
import type { Log } from '@tollway/chassis/log.ts'
import type { Settings } from '../settings.ts'
import type { Counters } from './counters.ts'
import { createMemoryCounters } from './memory.ts'
import { createRedisCounters } from './redis.ts'

/** The counters that the settings ask for. */
export function openCounters(settings: Settings, log: Log): Counters {
  if (settings.backendType === 'memory') return createMemoryCounters({ clock: systemClock })
  return createRedisCounters({
    url: settings.redisUrl,
    socketType: settings.redisSocketType,
    auth: settings.redisAuth,
    deadlineMs: settings.backendDeadlineMs,
    pipelineWindowMs: settings.redisPipelineWindowMs,
    pipelineLimit: settings.redisPipelineLimit,
    random: Math.random,
    onWarning: text => log.warn(text),
  })
}
