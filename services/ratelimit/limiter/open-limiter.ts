import type { Clock } from '@tollway/chassis/clock.ts'
import type { ErrorWatch } from '../counters/backend-health.ts'
import type { Counters } from '../counters/counters.ts'
import { createMemoryCounters } from '../counters/memory.ts'
import type { Stats } from '../stats/stats.ts'
import { createCounting, type FailureMode } from './counting.ts'
import { type Limiter, type LimiterOptions, RuleLimiter } from './limiter.ts'
import { OverLimitCache } from './over-limit-cache.ts'

export interface LimiterSettings
  extends Pick<
    LimiterOptions,
    | 'cacheKeyPrefix'
    | 'expirationJitterMaxSeconds'
    | 'nearLimitRatio'
    | 'shadowMode'
    | 'quotaMode'
    | 'dynamicMetadata'
    | 'problemDetails'
  > {
  readonly backendFailureMode: FailureMode
  readonly backendFailureLocalShare: number
  /** The size of the local cache; 0 for no cache. */
  readonly localCacheBytes: number
  readonly stopIncrementWhenOverLimit: boolean
  readonly responseHeaders: boolean
  readonly limitHeader: string
  readonly remainingHeader: string
  readonly resetHeader: string
  readonly headerForm: 'reference' | 'ietf-draft'
}

interface LimiterParts
  extends Pick<
    LimiterOptions,
    'rules' | 'stats' | 'limitStats' | 'clock' | 'random' | 'startCounting' | 'observation'
  > {
  readonly counters: Pick<Counters, 'add' | 'admit' | 'openChannel'>
  /** Is told of each call that the backend answered asynchronously or could not count. */
  readonly errors: Pick<ErrorWatch, 'succeeded' | 'failed'>
}

export interface OpenedLimiter extends Limiter {
  /** Drops keys from the local cache, because their counters were changed. */
  forget(keys: readonly string[]): void
  /** Drops keys from the local cache of every process that shares the backend. */
  announce(keys: readonly string[]): void
}

/**
 * Processes announce keys whose counters were changed in the channel with this name after `CACHE_KEY_PREFIX`.
 */
const changesChannel = 'tollway-changed-counters'

export function openLimiter(
  settings: LimiterSettings,
  { counters, errors, ...parts }: LimiterParts,
): OpenedLimiter {
  const { clock, stats } = parts
  const failures = stats.counter('ratelimit.service.call.should_rate_limit.redis_error')
  const cache = settings.localCacheBytes > 0 ? openCache(settings.localCacheBytes, stats) : undefined
  const forget = (keys: readonly string[]) => {
    for (const key of keys) cache?.delete(key)
  }
  const channel =
    cache &&
    counters.openChannel?.(`${settings.cacheKeyPrefix}${changesChannel}`, {
      onMessage: key => cache.delete(key),
      onGap: () => cache.clear(),
    })
  const publish = (keys: readonly string[]) => channel?.publish(keys)
  const counting = createCounting({
    counters,
    cache,
    onGivenBack: publish,
    stopWhenOver: settings.stopIncrementWhenOverLimit,
    mode: settings.backendFailureMode,
    local: localCounters(settings.backendFailureMode, clock),
    localShare: settings.backendFailureLocalShare,
    onSuccess: () => errors.succeeded(),
    onFailure(error) {
      failures.value += 1
      errors.failed(error)
    },
  })
  const { limitHeader: limit, remainingHeader: remaining, resetHeader: reset } = settings
  const ietfHeaders = settings.headerForm === 'ietf-draft'
  const headerNames = settings.responseHeaders && !ietfHeaders ? { limit, remaining, reset } : undefined
  const limiter = new RuleLimiter({ ...settings, ...parts, counting, headerNames, ietfHeaders })
  return Object.assign(limiter, {
    forget,
    announce(keys: readonly string[]) {
      forget(keys)
      publish(keys)
    },
  })
}

/** Returns the counters of this process. Only the failure mode `local` uses them. */
function localCounters(mode: FailureMode, clock: Clock): Pick<Counters, 'add' | 'admit'> {
  return mode === 'local' ? createMemoryCounters({ clock }) : { add: () => [] }
}

function openCache(bytes: number, stats: Stats): OverLimitCache {
  const cache = new OverLimitCache(bytes)
  for (const name of Object.keys(cache.counts) as (keyof typeof cache.counts)[]) {
    stats.gauge(`ratelimit.localcache.${name}`, () => cache.counts[name])
  }
  return cache
}
