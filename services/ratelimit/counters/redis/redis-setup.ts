import { createBackoff } from '@tollway/chassis/backoff.ts'
import { type Clock, systemClock } from '@tollway/chassis/clock.ts'
import type { LogFields } from '@tollway/chassis/log/log.ts'
import type { LimitCheck, LimitOutcome } from '../admission/limit-check.ts'
import { type BackendStats, unreadStats } from '../backend-stats.ts'
import { defaultMaxTouchedKeys } from '../batching/touched-keys.ts'
import type { BucketShares } from '../bucket-shares.ts'
import type { BusyPollMode } from '../connections/busy-poll.ts'
import { breakerSilenceMs, createBreakers } from '../connections/circuit-breaker.ts'
import type { TlsOptions } from '../connections/connect-socket.ts'
import type { Channel, ChannelListener, Counters, CountersError, Hit } from '../counters.ts'
import type { Reservations } from '../reservations.ts'
import type { TimeMicros } from './admission-script.ts'
import type { RedisAddress } from './redis-address.ts'
import { RespConnection, type RespConnectionOptions } from './resp/connection.ts'
import { type RedisSessionOptions, sendCommandOnce } from './resp/session.ts'

export interface RedisCountersOptions {
  /** `single`, `sentinel` or `cluster`, in any letter case. Defaults to `single`. */
  readonly type?: string
  /** See `parseRedisAddress`. */
  readonly url: string
  /** Applies only if the address of a single Redis is a bare name; see `parseRedisAddress`. */
  readonly socketType?: 'unix' | 'tcp'
  /** `password` or `user:password`; takes precedence over the URL. */
  readonly auth?: string
  /** The login for the sentinels, in the form of `auth`. */
  readonly sentinelAuth?: string
  /** Enables TLS, also to the sentinels; see `SocketOptions.tls`. */
  readonly tls?: TlsOptions | (() => TlsOptions) | undefined
  /**
   * If any key of a batch would exceed its limit, only the keys that would are incremented. On one Redis that
   * is atomic. Over several slots of a cluster it takes two steps, and hits that other callers add between
   * the steps are not seen.
   */
  readonly stopWhenOver?: boolean
  readonly deadlineMs?: number
  /** How long commands are collected before they are written; 0 for one turn of the event loop. */
  readonly pipelineWindowMs?: number
  /** Collected hits are written early when there are this many; 0 for no such limit. */
  readonly pipelineLimit?: number
  /** At most this many hits of one connection are collected or await an answer; see `PipelineOptions`. */
  readonly maxHitsInFlight?: number
  /** The number of keys for each connection for which this process remembers that it set the expiry. */
  readonly maxTouchedKeys?: number
  /**
   * A connection is closed when it is not established, or replies are due and none arrives, for this time.
   */
  readonly stallTimeoutMs?: number
  /** How often the slots of a healthy cluster are refreshed. */
  readonly clusterRefreshMs?: number
  readonly busyPoll?: BusyPollMode
  readonly clock?: Clock
  /** The time that the algorithms use; only tests pass it. Defaults to the time of Redis. */
  readonly timeMicros?: TimeMicros
  /** Where the statistics of the connections that carry counters are kept; nowhere when left out. */
  readonly stats?: BackendStats
  /** The pool's name in the statistics, as in envoyproxy/ratelimit. */
  readonly pool?: 'redis_pool' | 'redis_per_second_pool'
  readonly random: () => number
  /** Called once if Redis may evict counters, and when a circuit breaker opens or closes. */
  readonly onWarning?: (message: string, fields: LogFields) => void
}

export interface RedisCounters extends Counters {
  readonly reservations: Reservations
  add(batch: readonly Hit[]): Promise<readonly number[]>
  admit(checks: readonly LimitCheck[]): Promise<readonly LimitOutcome[]>
  findObstacle(keyPrefix: string, features: readonly string[]): Promise<string>
  openChannel(name: string, listener: ChannelListener): Channel
  openBucketShares(keyPrefix: string): BucketShares
}

export type RedisSetup = ReturnType<typeof createRedisSetup>

export function createRedisSetup(options: RedisCountersOptions, address: RedisAddress) {
  const { random, clock = systemClock, onWarning = () => {} } = options
  const { deadlineMs = 100, stats = unreadStats, pool = 'redis_pool' } = options
  const transport = {
    tls: options.tls ?? ('secure' in address && address.secure ? {} : undefined),
    timeoutMs: options.stallTimeoutMs ?? 1_000,
    busyPoll: options.busyPoll,
    clock,
  }
  const session = { ...address.login, ...transport, silenceMs: breakerSilenceMs(deadlineMs) }
  const newBackoff = () => createBackoff({ initialMs: 50, maxMs: 500, factor: 2, jitter: 0.5, random })
  const opened = stats.counter(`ratelimit.${pool}.cx_total`)
  /** Counts each connection that ends, for any reason, although the name of envoyproxy/ratelimit says local. */
  const ended = stats.counter(`ratelimit.${pool}.cx_local_close`)
  stats.gauge(`ratelimit.${pool}.cx_active`, () => opened.value - ended.value)
  const newBreaker = createBreakers({ stats, prefix: `ratelimit.${pool}`, onWarning })
  const warnOfEviction = createEvictionWarning(session, options.onWarning)

  /**
   * Opens a connection to a Redis that has counters.
   *
   * @param name the name of the Redis, for the log
   */
  function openConnection(
    name: string,
    target: Pick<RespConnectionOptions, 'endpoint' | 'masterOnly'>,
  ): RespConnection {
    const breaker = newBreaker(`Redis ${name}`)
    const connection = new RespConnection({ ...session, ...target, backoff: newBackoff(), breaker })
    connection.onHealth(healthy => {
      if (healthy) opened.value += 1
      else ended.value += 1
    })
    warnOfEviction(connection)
    return connection
  }

  return {
    session,
    /** The options of `session` that do not depend on the login. Sessions with the sentinels use them too. */
    transport,
    newBackoff,
    openConnection,
    onWarning,
    limits: {
      deadlineMs,
      windowMs: options.pipelineWindowMs ?? 0,
      limit: options.pipelineLimit ?? 0,
      maxHitsInFlight: options.maxHitsInFlight ?? 20_000,
      maxTouchedKeys: options.maxTouchedKeys ?? defaultMaxTouchedKeys,
      clock,
      timeMicros: options.timeMicros,
    },
    stopWhenOver: options.stopWhenOver ?? false,
    clusterRefreshMs: options.clusterRefreshMs ?? 5_000,
    random,
  }
}

/**
 * Reads the memory settings of the first Redis whose connection becomes healthy, and warns when they may
 * evict counters. It sends INFO once, on a separate connection, since a proxy that does not support INFO
 * closes the connection. A Redis that rejects the command causes no warning.
 */
function createEvictionWarning(
  session: Omit<RedisSessionOptions, 'endpoint'>,
  onWarning: RedisCountersOptions['onWarning'],
): (connection: RespConnection) => void {
  let asked = false
  return connection => {
    connection.onHealth(async healthy => {
      const { endpoint } = connection
      if (!healthy || asked || endpoint === undefined || onWarning === undefined) return
      asked = true
      const memory = await sendCommandOnce({ ...session, endpoint }, 'INFO', 'memory')
      const reason = typeof memory === 'string' ? findEvictionRisk(memory) : undefined
      if (reason !== undefined) onWarning('check memory of Redis failed', { reason })
    })
  }
}

/** @param memory the section `memory` of the reply to INFO */
function findEvictionRisk(memory: string): string | undefined {
  const limitBytes = /^maxmemory:(\d+)/m.exec(memory)?.[1] ?? '0'
  const policy = /^maxmemory_policy:(\S+)/m.exec(memory)?.[1] ?? 'noeviction'
  if (limitBytes === '0' || policy === 'noeviction') return undefined
  return (
    `Redis has maxmemory-policy ${policy}: at its limit of ${limitBytes} bytes it may evict counters, ` +
    'and their limits then start anew; use noeviction'
  )
}

const probed = (algorithm: LimitCheck['algorithm'], keyPrefix: string): LimitCheck => ({
  key: `${keyPrefix}{tollway-probe}:${algorithm}`,
  algorithm,
  hits: 1,
  limit: 1_000_000,
  burst: 1_000_000,
  windowTicks: 1,
  ticksPerSecond: 1,
  expirySeconds: 1,
  shadow: false,
  countRejected: false,
})

const commands = 'GET, HMGET, HSET, INCRBY, EXPIRE, PEXPIRE and TIME'
const commandsOfHolds = 'ZADD, ZRANGEBYSCORE, ZREM, ZREMRANGEBYSCORE, DEL, PEXPIRE and TIME'
const commandsOfShares = 'HGET, HSET, PEXPIRE, DEL and TIME'

/** Matches the errors of Redis and of proxies for a command that is missing or not permitted. */
const rejected = /NOPERM|unknown command|can't run this command/

/**
 * Counts one call with each algorithm, in keys that expire soon, and returns the error if Redis rejects one
 * of the commands: `NOPERM … no permissions to run the 'evalsha' command`. After any other error, such as a
 * lost connection, it returns the empty string, because nothing is known about the commands.
 *
 * @param keyPrefix the prefix of the keys that the login may use
 */
export async function findScriptObstacle(
  counters: Pick<RedisCounters, 'admit' | 'openBucketShares'>,
  keyPrefix: string,
  features: readonly string[],
): Promise<string> {
  const windows = ['FixedWindow', 'SlidingWindow', 'TokenBucket'] as const
  const count = (algorithms: readonly LimitCheck['algorithm'][], hits: number) =>
    counters.admit(algorithms.map(each => ({ ...probed(each, keyPrefix), hits })))
  let obstacle = await probe(commands, () => count(windows, 1))
  if (obstacle === '' && features.includes('concurrency')) {
    obstacle = await probe(commandsOfHolds, async () => {
      await count(['Concurrency'], 1)
      // A hold is also released, which needs other commands.
      await count(['Concurrency'], -1)
    })
  }
  if (obstacle === '' && features.includes('quota')) {
    const shares = counters.openBucketShares(keyPrefix)
    obstacle = await probe(commandsOfShares, () => shares.leave('tollway-probe', 'tollway-probe'))
  }
  return obstacle

  async function probe(needed: string, run: () => unknown): Promise<string> {
    try {
      await run()
      return ''
    } catch (error) {
      const { message } = error as CountersError
      if (!rejected.test(message)) return ''
      return message.includes("' command") ? message : `${message}; the script needs ${needed}`
    }
  }
}
