import { type Backoff, createBackoff } from '@tollway/chassis/backoff.ts'
import type { Clock } from '@tollway/chassis/clock.ts'
import { type BackendStats, unreadStats } from './backend-stats.ts'
import type { BusyPollMode } from './busy-poll.ts'
import { breakerSilenceMs, type CreateBreaker, createBreakers } from './circuit-breaker.ts'
import type { TlsOptions } from './connect-socket.ts'
import type { Counters, Hit } from './counters.ts'
import { createEvictionWarning } from './eviction-warning.ts'
import type { RedisAddress } from './redis-address.ts'
import type { RedisLimits } from './redis-node.ts'
import type { RespConnection } from './resp/connection.ts'
import { createPoolStats, type PoolName, type PoolStats } from './resp/pool-stats.ts'
import type { SessionOptions } from './resp/session.ts'
import { defaultMaxTouchedKeys } from './touched-keys.ts'

export interface RedisCountersOptions {
  /** `single`, `sentinel` or `cluster`, in whatever letter case; single when left out. */
  readonly type?: string
  /** See `parseRedisAddress`. */
  readonly url: string
  /** Decides only where the address of a single Redis is a bare name; see `parseRedisAddress`. */
  readonly socketType?: 'unix' | 'tcp'
  /** `password` or `user:password`; goes before what the URL says. */
  readonly auth?: string
  /** The same, for the sentinels. */
  readonly sentinelAuth?: string
  /** TLS, when given, also to the sentinels; see `SessionOptions.tls`. */
  readonly tls?: TlsOptions | (() => TlsOptions)
  /**
   * Where a key of a batch would exceed its limit, only such keys are counted. On one Redis that is atomic;
   * over several slots of a cluster it takes two steps, and what others count between them is not seen.
   */
  readonly stopWhenOver?: boolean
  /** How long an `add` may take. */
  readonly deadlineMs?: number
  /** How long commands are collected before they are written; 0 for one turn of the event loop. */
  readonly pipelineWindowMs?: number
  /** So many collected hits are written before the window is over; 0 for no such limit. */
  readonly pipelineLimit?: number
  /**
   * The most hits of one connection that are collected or written and not yet answered; beyond it `add`
   * rejects at once.
   */
  readonly maxHitsInFlight?: number
  /** Of how many keys of one connection this process remembers that it has set their expiry. */
  readonly maxTouchedKeys?: number
  /** A connection that is not made, or owes answers and brings nothing, for so long is given up. */
  readonly stallTimeoutMs?: number
  /** How often a cluster is asked for its slots while all is well. */
  readonly clusterRefreshMs?: number
  /** Whether the event loop stays awake for replies that come soon. */
  readonly busyPoll?: BusyPollMode
  /** For the deadlines; the system's when left out. */
  readonly clock?: Clock
  /** Where connections are counted, and under which name; nowhere when left out. */
  readonly stats?: BackendStats
  readonly pool?: PoolName
  /** Uniform in [0, 1). */
  readonly random: () => number
  /** Called once when the server's settings may lose counters, and when a circuit breaker opens or closes. */
  readonly onWarning?: (text: string) => void
}

export interface RedisCounters extends Counters {
  add(batch: readonly Hit[]): Promise<readonly number[]>
  /** Of the connections that carry counters; those that only ask where Redis is are not in it. */
  readonly pool: PoolStats
}

/** What all connections of one set of counters share. */
export interface RedisSetup {
  /** How a session with one that holds counters begins. */
  readonly session: Omit<SessionOptions, 'endpoint'>
  /** The same without a login. */
  readonly transport: Omit<SessionOptions, 'endpoint'>
  readonly newBackoff: () => Backoff
  readonly pool: PoolStats
  readonly newBreaker: CreateBreaker
  readonly limits: RedisLimits
  readonly stopWhenOver: boolean
  readonly clusterRefreshMs: number
  readonly random: () => number
  /** Looks once at the settings of the Redis that serves first. */
  readonly inspect: (connection: RespConnection) => void
}

export function createRedisSetup(options: RedisCountersOptions, address: RedisAddress): RedisSetup {
  const { random, clock, onWarning, tls } = options
  const secure = tls ?? ('secure' in address && address.secure ? {} : undefined)
  const transport = {
    ...(secure === undefined ? {} : { tls: secure }),
    timeoutMs: options.stallTimeoutMs ?? 1_000,
    ...(options.busyPoll && { busyPoll: options.busyPoll }),
    ...(clock === undefined ? {} : { clock }),
  }
  const deadlineMs = options.deadlineMs ?? 100
  const session = { ...address.login, ...transport, silenceMs: breakerSilenceMs(deadlineMs) }
  const { stats = unreadStats, pool = 'redis_pool' } = options
  return {
    session,
    transport,
    newBackoff: () => createBackoff({ initialMs: 50, maxMs: 500, factor: 2, jitter: 0.5, random }),
    pool: createPoolStats(stats, pool),
    newBreaker: createBreakers({ stats, prefix: `ratelimit.${pool}`, onWarning: onWarning ?? (() => {}) }),
    limits: {
      deadlineMs,
      windowMs: options.pipelineWindowMs ?? 0,
      limit: options.pipelineLimit ?? 0,
      maxHitsInFlight: options.maxHitsInFlight ?? 20_000,
      maxTouchedKeys: options.maxTouchedKeys ?? defaultMaxTouchedKeys,
      ...(clock === undefined ? {} : { clock }),
    },
    stopWhenOver: options.stopWhenOver ?? false,
    clusterRefreshMs: options.clusterRefreshMs ?? 5_000,
    random,
    inspect: createEvictionWarning(session, onWarning),
  }
}
