import { type Backoff, createBackoff } from '@tollway/chassis/backoff.ts'
import type { Clock } from '@tollway/chassis/clock.ts'
import { type ChainableCommander, Redis, type RedisOptions } from 'ioredis'
import { type Counters, CountersError } from './counters.ts'
import { createPipeline, type Increment, type Reply } from './pipeline.ts'
import { parseRedisAddress, type RedisAddress } from './redis-address.ts'
import { createTouchedKeys, type TouchedKeys } from './touched-keys.ts'

export interface RedisCountersOptions {
  /** `host:port`, the path of a unix socket, or a `redis://` URL. */
  readonly url: string
  /** Decides only where `url` is a bare name; see `parseRedisAddress`. */
  readonly socketType?: 'unix' | 'tcp'
  /** `password` or `user:password`; goes before what the URL says. */
  readonly auth?: string
  /** How long an `add` may take. */
  readonly deadlineMs?: number
  /** How long commands are collected before they are written; 0 for one turn of the event loop. */
  readonly pipelineWindowMs?: number
  /** So many collected hits are written before the window is over; 0 for no such limit. */
  readonly pipelineLimit?: number
  /** The most hits that are collected or written and not yet answered; beyond it `add` rejects at once. */
  readonly maxHitsInFlight?: number
  /** Of how many keys this process remembers that it has set their expiry. */
  readonly maxTouchedKeys?: number
  /** A connection that owes answers and brings nothing for so long is given up. */
  readonly stallTimeoutMs?: number
  /** For the deadlines; the system's when left out. */
  readonly clock?: Clock
  /** Uniform in [0, 1). */
  readonly random: () => number
  /** Called at most once, when the server's settings may lose counters. */
  readonly onWarning?: (text: string) => void
}

/** Redis's own word for a sum beyond 64 bits. */
const overflowError = /^ERR increment or decrement would overflow/
/** What such a counter is answered as: beyond any value that can be told, and so is each share of the sum. */
const overflown = 2n ** 63n

/**
 * Counters in a single Redis: `INCRBY`, with `EXPIRE` in the same write at this process's first touch of a
 * key and again when the reply shows that the key was new. Every other addition is one command.
 *
 * Adding 0 is a `GET`: it neither creates a key nor prolongs one, and a read-only replica answers it.
 *
 * Connects at once, and again and again with waits that grow to a second. While there is no connection that
 * has answered a PING, `add` rejects immediately with the reason; nothing is kept for later and nothing is
 * sent twice.
 *
 * @throws Error when the address cannot be read.
 */
export function createRedisCounters(options: RedisCountersOptions): Counters {
  const { url, socketType = 'tcp', auth = '', maxTouchedKeys = 100_000 } = options
  const { stallTimeoutMs = 1_000 } = options
  const backoff = createBackoff({
    initialMs: 50,
    maxMs: 1_000,
    factor: 2,
    jitter: 0.5,
    random: options.random,
  })
  const settings = connectionSettings(parseRedisAddress(url, socketType, auth), stallTimeoutMs)
  const connection = openConnection(settings, backoff)
  const touched = createTouchedKeys(maxTouchedKeys)
  const pipeline = createPipeline({
    send: increments => sendIncrements(connection.redis, touched, increments),
    deadlineMs: options.deadlineMs ?? 15,
    windowMs: options.pipelineWindowMs ?? 0,
    limit: options.pipelineLimit ?? 0,
    maxHitsInFlight: options.maxHitsInFlight ?? 20_000,
    ...(options.clock === undefined ? {} : { clock: options.clock }),
  })
  const { onWarning } = options
  let warned = onWarning === undefined
  connection.onHealth(healthy => {
    // Redis may come back empty: every key is new to it then.
    if (!healthy) touched.clear()
    if (healthy && !warned) {
      warned = true
      evictionWarning(settings).then(text => text !== undefined && onWarning?.(text))
    }
  })
  return {
    add(batch) {
      if (!connection.healthy) return Promise.reject(new CountersError(connection.problem))
      return pipeline.add(batch)
    },
    get healthy() {
      return connection.healthy
    },
    onHealth: connection.onHealth,
    close() {
      pipeline.close()
      return connection.close()
    },
  }
}

/** Without the one that ioredis takes as a parameter of its type. */
type ConnectionSettings = Omit<RedisOptions, 'replyMapping'>

function connectionSettings(address: RedisAddress, stallTimeoutMs: number): ConnectionSettings {
  const { endpoint, username, password, database = 0 } = address
  return {
    ...endpoint,
    db: database,
    ...(username === undefined ? {} : { username }),
    ...(password === undefined ? {} : { password }),
    // The older protocol, and no INFO or CLIENT in the handshake: proxies such as twemproxy know none of the
    // three, and an old server's error about HELLO would quote the password.
    protocol: 2,
    enableReadyCheck: false,
    disableClientInfo: true,
    // An addition whose answer was lost may have been counted. With no retries, it is rejected when the
    // connection is.
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
    // Values beyond 2^53 must stay exact.
    stringNumbers: true,
    connectTimeout: stallTimeoutMs,
    socketTimeout: stallTimeoutMs,
    disconnectTimeout: 100,
  }
}

interface Connection {
  readonly redis: Redis
  readonly healthy: boolean
  /** Why it is not healthy. */
  readonly problem: string
  onHealth(listener: (healthy: boolean) => void): void
  close(): Promise<void>
}

const closedText = 'the counters are closed'
const lostText = 'the connection to Redis was lost'

function openConnection(settings: ConnectionSettings, backoff: Backoff): Connection {
  const listeners: ((healthy: boolean) => void)[] = []
  let healthy = false
  let closed = false
  let problem = 'not connected to Redis yet'
  const redis = new Redis({ ...settings, retryStrategy: () => backoff.nextMs() })
  const ended = new Promise<void>(resolve => redis.once('end', () => resolve()))

  function become(next: boolean): void {
    if (healthy === next) return
    healthy = next
    for (const listener of listeners) listener(next)
  }

  /**
   * A server that is loading its data takes connections and refuses commands: only a PONG proves that it
   * serves.
   */
  async function prove(): Promise<void> {
    try {
      // ioredis goes on when its own SELECT was refused; that must not end in counting in another database.
      if (settings.db) await redis.select(settings.db)
      await redis.ping()
      if (closed) return
      backoff.reset()
      problem = lostText
      become(true)
    } catch (error) {
      problem = textOf(error, problem)
      // When the connection is what failed, the next one is on its way already.
      if (!closed && redis.status === 'ready') redis.disconnect(true)
    }
  }

  redis.on('ready', prove)
  redis.on('error', error => {
    problem = textOf(error, problem)
  })
  redis.on('close', () => become(false))
  return {
    redis,
    get healthy() {
      return healthy
    },
    get problem() {
      return closed ? closedText : problem
    },
    onHealth: listener => listeners.push(listener),
    async close() {
      if (closed) return ended
      closed = true
      const waits = redis.status === 'reconnecting' || redis.status === 'end'
      redis.disconnect()
      // Between two tries there is no socket, and ioredis does not tell that it has ended.
      if (!waits) await ended
      become(false)
    },
  }
}

/** One write. Redis runs the commands in order, each for itself, so one that fails leaves the others be. */
async function sendIncrements(
  redis: Redis,
  touched: TouchedKeys,
  increments: readonly Increment[],
): Promise<readonly Reply[]> {
  const commands = redis.pipeline()
  const expires = increments.map(increment => addCommands(commands, touched, increment))
  const results = (await commands.exec()) ?? []
  const replies: Reply[] = []
  const renewed: Increment[] = []
  let position = 0
  for (const [index, increment] of increments.entries()) {
    const reply = replyOf(results[position++])
    replies.push(reply)
    if (expires[index]) {
      const [expireError] = results[position++] ?? []
      if (expireError || reply instanceof CountersError) touched.forget(increment.key)
    } else if (increment.by > 0 && reply === increment.by) renewed.push(increment)
  }
  if (renewed.length > 0) sendExpiries(redis, touched, renewed)
  return replies
}

/** Whether an EXPIRE goes with it. */
function addCommands(commands: ChainableCommander, touched: TouchedKeys, increment: Increment): boolean {
  const { key, by, expirySeconds } = increment
  if (by === 0) {
    commands.get(key)
    return false
  }
  commands.incrby(key, by)
  if (!touched.isFirst(key)) return false
  commands.expire(key, expirySeconds)
  return true
}

/** For keys that were touched before and yet were new: they had been evicted, flushed or had expired. */
async function sendExpiries(redis: Redis, touched: TouchedKeys, keys: readonly Increment[]): Promise<void> {
  const commands = redis.pipeline()
  for (const { key, expirySeconds } of keys) commands.expire(key, expirySeconds)
  const results = (await commands.exec()) ?? []
  for (const [index, { key }] of keys.entries()) {
    if (results[index]?.[0] !== null) touched.forget(key)
  }
}

function replyOf(result: readonly [Error | null, unknown] | undefined): Reply {
  const [error, value] = result ?? [new Error(lostText), null]
  if (error) {
    if (overflowError.test(error.message)) return overflown
    return new CountersError(textOf(error, lostText))
  }
  if (value === null) return 0
  const count = Number(value)
  if (Number.isSafeInteger(count)) return count
  const isWhole = typeof value === 'string' && /^-?\d{1,19}$/.test(value)
  return isWhole ? BigInt(value) : new CountersError('a counter in Redis is not a whole number')
}

/**
 * The text of Redis or of the network. ioredis's own words about a lost connection speak of its settings; the
 * fallback takes their place.
 */
function textOf(error: unknown, fallback: string): string {
  // A host name with several addresses brings one error for each of them, and no text of its own.
  if (error instanceof AggregateError) return textOf(error.errors[0], fallback)
  if (!(error instanceof Error)) return fallback
  const own = /MaxRetriesPerRequest|AbortError/.test(error.name) || /enableOfflineQueue/.test(error.message)
  return own || error.message === '' ? fallback : error.message
}

/** Looks once, on a connection of its own: a proxy that does not know INFO closes it. */
async function evictionWarning(settings: ConnectionSettings): Promise<string | undefined> {
  const redis = new Redis({ ...settings, lazyConnect: true, retryStrategy: () => null })
  redis.on('error', () => {})
  try {
    await redis.connect()
    const memory = await redis.info('memory')
    const limitBytes = /^maxmemory:(\d+)/m.exec(memory)?.[1] ?? '0'
    const policy = /^maxmemory_policy:(\S+)/m.exec(memory)?.[1] ?? 'noeviction'
    if (limitBytes === '0' || policy === 'noeviction') return undefined
    return (
      `Redis has maxmemory-policy ${policy}: at its limit of ${limitBytes} bytes it may evict counters, ` +
      'and their limits then start anew; use noeviction'
    )
  } catch {
    // Not allowed to ask, or the connection was lost: no reason to disturb anyone.
    return undefined
  } finally {
    redis.disconnect()
  }
}
