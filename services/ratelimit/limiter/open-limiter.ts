import type { Clock } from '@tollway/chassis/clock.ts'
import type { Log } from '@tollway/chassis/log.ts'
import { createCircuitBreaker } from '../counters/circuit-breaker.ts'
import type { Counters } from '../counters/counters.ts'
import { createMemoryCounters } from '../counters/memory.ts'
import type { Stats } from '../stats/stats.ts'
import { createCounting, type FailureMode } from './counting.ts'
import { createLimiter, type Limiter, type LimiterOptions } from './limiter.ts'
import { createOverLimitCache, type OverLimitCache } from './over-limit-cache.ts'

/** The settings of decisions, as `settings.ts` reads them. */
export interface LimiterSettings
  extends Pick<
    LimiterOptions,
    | 'cacheKeyPrefix'
    | 'expirationJitterMaxSeconds'
    | 'nearLimitRatio'
    | 'shadowMode'
    | 'quotaMode'
    | 'dynamicMetadata'
  > {
  readonly backendType: 'redis' | 'memcache' | 'memory'
  readonly redisType: string
  /** Whether limits per second have a Redis of their own. */
  readonly redisPerSecond: boolean
  readonly backendFailureMode: FailureMode
  readonly backendFailureLocalShare: number
  /** 0 for no cache. */
  readonly localCacheBytes: number
  readonly stopIncrementWhenOverLimit: boolean
  readonly responseHeaders: boolean
  readonly limitHeader: string
  readonly remainingHeader: string
  readonly resetHeader: string
}

export interface LimiterParts
  extends Pick<LimiterOptions, 'rules' | 'stats' | 'limitStats' | 'clock' | 'random' | 'startCounting'> {
  readonly counters: Counters
  readonly log: Log
}

/** The limiter that the settings ask for, on these counters. `close` ends what it does by itself. */
export function openLimiter(
  settings: LimiterSettings,
  { counters, log, ...parts }: LimiterParts,
): Limiter & { close(): void } {
  const { clock, stats } = parts
  const failures = stats.counter('ratelimit.service.call.should_rate_limit.redis_error')
  const onChange = (problem: string | undefined) => tellOfBreaker(problem, log)
  const breaker = hasSeveralServers(settings)
    ? undefined
    : createCircuitBreaker({ counters, clock, onChange })
  const cache = settings.localCacheBytes > 0 ? openCache(settings.localCacheBytes, stats) : undefined
  const counting = createCounting({
    counters,
    breaker,
    cache,
    stopWhenOver: settings.stopIncrementWhenOverLimit,
    mode: settings.backendFailureMode,
    local: localCounters(settings.backendFailureMode, clock),
    localShare: settings.backendFailureLocalShare,
    onFailure: () => {
      failures.value += 1
    },
  })
  const { limitHeader: limit, remainingHeader: remaining, resetHeader: reset } = settings
  const headerNames = settings.responseHeaders ? { limit, remaining, reset } : undefined
  const limiter = createLimiter({ ...settings, ...parts, counting, headerNames })
  return { decide: limiter.decide, close: () => breaker?.close() }
}

/** Of which one may be away alone: a breaker would refuse the calls of all the others for it. */
function hasSeveralServers({ backendType, redisType, redisPerSecond }: LimiterSettings): boolean {
  if (backendType === 'redis') return redisType === 'cluster' || redisPerSecond
  return backendType === 'memcache'
}

/** Only the mode `local` counts in them. */
function localCounters(mode: FailureMode, clock: Clock): Pick<Counters, 'add'> {
  return mode === 'local' ? createMemoryCounters({ clock }) : { add: () => [] }
}

function openCache(bytes: number, stats: Stats): OverLimitCache {
  const cache = createOverLimitCache(bytes)
  for (const name of Object.keys(cache.counts) as (keyof typeof cache.counts)[]) {
    stats.gauge(`ratelimit.localcache.${name}`, () => cache.counts[name])
  }
  return cache
}

function tellOfBreaker(problem: string | undefined, log: Log): void {
  if (problem === undefined) log.warn('the backend of the counters answers again')
  else log.warn('the backend of the counters fails; it is not asked until it answers again', { problem })
}
