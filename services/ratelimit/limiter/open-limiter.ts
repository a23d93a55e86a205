import type { Clock } from '@tollway/chassis/clock.ts'
import type { LimitCheck } from '../counters/admission/limit-check.ts'
import type { ErrorWatch } from '../counters/backend-health.ts'
import type { Channel, Counters, Hit } from '../counters/counters.ts'
import { createMemoryCounters } from '../counters/memory.ts'
import type { Stats } from '../stats/stats.ts'
import { type Counting, createCounting, type FailureMode } from './counting.ts'
import { Leases } from './leases.ts'
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
  /** Decides calls by shares of limits, or asks. Shares need neither the local cache nor the failure mode. */
  readonly admitShared?: (
    ...call: [...Parameters<Counting['admit']>, ask: Counting['admit']]
  ) => ReturnType<Counting['admit']>
  /** Is told of each call that the backend answered asynchronously or could not count. */
  readonly errors: Pick<ErrorWatch, 'succeeded' | 'failed'>
}

export interface OpenedLimiter extends Limiter {
  /** Drops keys from the local cache, and their leases, because an operator changed their counters. */
  forget(keys: readonly string[]): void
  /** Drops keys from the local cache of every process that shares the backend. */
  announce(keys: readonly string[]): void
  /** Drops keys from the local cache, and their leases, in every process that shares the backend. */
  revoke(keys: readonly string[]): void
  /** Returns all leases. Later calls ask the backend. */
  returnLeases(): Promise<void>
}

/**
 * Processes announce keys whose counters were changed in the channel with this name after `CACHE_KEY_PREFIX`.
 */
const changesChannel = 'tollway-changed-counters'

/**
 * Begins the second message about a counter that an operator changed. Processes of versions without leases take
 * it for a key that they do not have.
 */
const revoking = '\u0000revoked '

export function openLimiter(
  settings: LimiterSettings,
  { counters, errors, admitShared, ...parts }: LimiterParts,
): OpenedLimiter {
  const { clock, stats } = parts
  const failures = stats.counter('ratelimit.service.call.should_rate_limit.redis_error')
  const cache = settings.localCacheBytes > 0 ? openCache(settings.localCacheBytes, stats) : undefined
  let channel: Channel | undefined
  let isChannelOpen = false
  const openChannelOnce = () => {
    channel ??= counters.openChannel?.(`${settings.cacheKeyPrefix}${changesChannel}`, {
      onMessage,
      onGap() {
        isChannelOpen = true
        cache?.clear()
        leases?.revokeAll()
      },
    })
  }
  const publish = (keys: readonly string[]) => channel?.publish(keys)
  function announce(keys: readonly string[]): void {
    for (const key of keys) drop(key)
    publish(keys)
  }
  const leases = openLeases(counters, {
    clock,
    stopWhenOver: settings.stopIncrementWhenOverLimit,
    ensureListening() {
      openChannelOnce()
      if (leases !== undefined && isChannelOpen) openLeaseStats(leases, stats)
      return isChannelOpen
    },
    onReturned: announce,
  })
  function drop(key: string): void {
    cache?.delete(key)
    leases?.forget(key)
  }
  function onMessage(message: string): void {
    drop(message)
    if (message.startsWith(revoking)) leases?.revoke(message.slice(revoking.length))
  }
  function forget(keys: readonly string[]): void {
    for (const key of keys) {
      drop(key)
      leases?.revoke(key)
    }
  }
  if (cache !== undefined) openChannelOnce()
  const ownCounting = createCounting({
    counters: leases ?? counters,
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
  const counting: Counting =
    admitShared === undefined
      ? ownCounting
      : {
          add: ownCounting.add,
          admit: (checks, nowMs) => admitShared(checks, nowMs, ownCounting.admit),
        }
  const { limitHeader: limit, remainingHeader: remaining, resetHeader: reset } = settings
  const ietfHeaders = settings.headerForm === 'ietf-draft'
  const headerNames = settings.responseHeaders && !ietfHeaders ? { limit, remaining, reset } : undefined
  const limiter = new RuleLimiter({ ...settings, ...parts, counting, headerNames, ietfHeaders })
  return Object.assign(limiter, {
    forget,
    announce,
    revoke(keys: readonly string[]) {
      forget(keys)
      publish(keys.flatMap(key => [key, `${revoking}${key}`]))
    },
    returnLeases: async () => leases?.close(),
  })
}

/** Returns undefined for counters that no other process shares: they are asked at no cost. */
function openLeases(
  counters: LimiterParts['counters'],
  options: Omit<ConstructorParameters<typeof Leases>[0], 'counters'>,
): Leases | undefined {
  const { admit, openChannel } = counters
  if (admit === undefined || openChannel === undefined) return undefined
  const asked = {
    add: (batch: readonly Hit[]) => counters.add(batch),
    admit: (checks: readonly LimitCheck[]) => admit.call(counters, checks),
  }
  return new Leases({ counters: asked, ...options })
}

/** The statistics exist from the first lease on. */
function openLeaseStats(leases: Leases, stats: Stats): void {
  stats.gauge('ratelimit.leases.open', () => leases.count().leases)
  stats.gauge('ratelimit.leases.hits', () => leases.count().hits)
  stats.follower('ratelimit.leases.takes').follow(leases.takes)
  stats.follower('ratelimit.leases.failed_takes').follow(leases.failedTakes)
  stats.follower('ratelimit.leases.returns').follow(leases.returns)
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
