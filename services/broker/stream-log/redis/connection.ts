import type { ConnectionOptions as TlsOptions } from 'node:tls'
import { type Backoff, createBackoff } from '@tollway/chassis/backoff.ts'
import { Redis } from 'ioredis'
import { LogRejection } from '../stream-log.ts'

type Argument = string | number | Uint8Array

interface RedisConnectionOptions {
  /**
   * `redis://[user:password@]host[:port][/database]`, `rediss://…` for TLS, `host:port`, or a unix socket.
   */
  readonly url: string
  /** TLS options for `rediss://`, in addition to host and port. */
  readonly tls?: TlsOptions
  /** The timeout to connect, and for a pending reply while Redis sends nothing. */
  readonly stallMs: number
  /** Returns a number uniform in [0, 1). */
  readonly random: () => number
}

const redisUrlForms =
  'redis://[user[:password]@]host[:port][/database], rediss://…, host:port or the absolute path of a unix socket'

/**
 * A connection that is opened again when it is lost. While it is down, commands are not queued. It repeats no
 * command: the caller decides about that.
 */
export class RedisConnection {
  readonly #redis: Redis
  readonly #stopSilenceWatch: () => void
  readonly #listeners: ((ready: boolean) => void)[] = []
  #ready = false
  #connected = false
  #closed = false
  #pendingReplies = 0
  #problem = 'no connection to Redis yet'

  /** @throws Error with the accepted forms, without the URL itself, which may contain a password */
  constructor(options: RedisConnectionOptions) {
    const url = isHostPort(options.url) ? `redis://${options.url}` : options.url
    if (!isRedisUrl(url)) throw new Error(`the address of Redis must be ${redisUrlForms}`)
    const backoff = createBackoff({
      initialMs: 20,
      maxMs: 500,
      factor: 2,
      jitter: 0.5,
      random: options.random,
    })
    this.#redis = openRedis(url, options, backoff)
    this.#stopSilenceWatch = watchSilence(
      this.#redis,
      options.stallMs,
      // During the handshake, replies are pending before the connection is ready.
      () => this.#pendingReplies > 0 || (this.#connected && !this.#ready),
    )
    this.#redis.on('error', (error: Error) => {
      if (!this.#ready) this.#problem = `Redis: ${error.message}`
    })
    this.#redis.on('connect', () => {
      this.#connected = true
    })
    this.#redis.on('ready', () => {
      backoff.reset()
      this.#setReady(true)
    })
    this.#redis.on('close', () => {
      this.#connected = false
      this.#problem = this.#closed ? 'closed' : this.#problem || 'the connection to Redis was lost'
      this.#setReady(false)
    })
    this.#redis.connect().catch(() => {})
  }

  get ready(): boolean {
    return this.#ready
  }

  /** Why the connection is not ready. */
  get problem(): string {
    return this.#problem
  }

  /**
   * Runs a command. Rejects without a connection, if the connection is lost before the reply, or if Redis
   * returns an error.
   */
  async call(command: string, ...args: readonly Argument[]): Promise<unknown> {
    this.#gatherCommands()
    this.#pendingReplies += 1
    try {
      return await this.#redis.callBuffer(command, args.map(asIoredisArgument))
    } finally {
      this.#pendingReplies -= 1
    }
  }

  /** Runs a script; rejects as `call` does. */
  runScript(script: string, keys: readonly string[], args: readonly Argument[] = []): Promise<unknown> {
    return this.call('EVAL', script, keys.length, ...keys, ...args)
  }

  /** Resolves when the connection is ready. Rejects after `timeoutMs`, and when the connection is closed. */
  async whenReady(timeoutMs?: number): Promise<void> {
    if (this.#ready) return
    if (this.#closed) throw new Error('closed')
    const { promise, resolve } = Promise.withResolvers<void>()
    const timer = timeoutMs === undefined ? undefined : setTimeout(resolve, timeoutMs)
    const listener = () => resolve()
    this.#listeners.push(listener)
    await promise
    clearTimeout(timer)
    this.#listeners.splice(this.#listeners.indexOf(listener), 1)
    if (!this.#ready) throw new Error(this.#problem)
  }

  /** Called each time the connection becomes ready or stops being ready. */
  onChange(listener: (ready: boolean) => void): void {
    this.#listeners.push(listener)
  }

  close(): void {
    this.#closed = true
    this.#problem = 'closed'
    this.#stopSilenceWatch()
    this.#redis.disconnect()
    // Callers of `whenReady` are notified.
    this.#notify(false)
  }

  /** Joins the commands of one turn of the event loop to one write. */
  #gatherCommands(): void {
    const { stream } = this.#redis
    if (!this.#ready || stream.writableCorked > 0) return
    stream.cork()
    setImmediate(() => stream.uncork())
  }

  #setReady(ready: boolean): void {
    if (this.#ready === ready) return
    this.#ready = ready
    if (ready) this.#problem = ''
    this.#notify(ready)
  }

  #notify(ready: boolean): void {
    for (const listener of [...this.#listeners]) listener(ready)
  }
}

function openRedis(url: string, { tls, stallMs }: RedisConnectionOptions, backoff: Backoff): Redis {
  return new Redis(url, {
    lazyConnect: true,
    // RESP3 would return replies of other types.
    protocol: 2,
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    // With 0, commands are rejected as soon as the connection is lost; otherwise they would wait until it is
    // ready again.
    maxRetriesPerRequest: 0,
    retryStrategy: () => backoff.nextMs(),
    // After a failover the old primary is a replica, and the address leads to the new one.
    reconnectOnError: error => /^(READONLY|MASTERDOWN)/.test(error.message),
    connectTimeout: stallMs,
    disableClientInfo: true,
    ...(tls === undefined || !url.startsWith('rediss:') ? {} : { tls }),
  })
}

function isHostPort(url: string): boolean {
  return /^([\w.-]+|\[[\da-fA-F:.]+\]):\d{1,5}$/.test(url)
}

function isRedisUrl(url: string): boolean {
  if (url.startsWith('/')) return true
  const parsed = URL.parse(url)
  return parsed !== null && /^rediss?:$/.test(parsed.protocol) && parsed.hostname !== ''
}

/** Returns bytes as a Buffer: of other arrays, ioredis writes the numbers as text. */
function asIoredisArgument(argument: Argument): string | number | Buffer {
  if (typeof argument !== 'object') return argument
  return Buffer.from(argument.buffer, argument.byteOffset, argument.byteLength)
}

/** The number of checks within `stallMs`. */
const checks = 4

/**
 * Cuts a connection with a pending reply when no data has arrived for `stallMs`, until the returned function
 * is called. The time is counted in checks, because received data is read between them: a process that was
 * paused makes a single late check, and does not take its own pause for silence of Redis.
 */
function watchSilence(redis: Redis, stallMs: number, isReplyPending: () => boolean): () => void {
  let silentChecks = 0
  const restart = () => {
    silentChecks = 0
  }
  redis.on('connect', () => {
    restart()
    redis.stream.on('data', restart)
  })
  const timer = setInterval(() => {
    silentChecks = isReplyPending() ? silentChecks + 1 : 0
    // The first check may come right after the command was sent.
    if (silentChecks <= checks) return
    restart()
    redis.stream.destroy(new Error(`no reply for ${stallMs} ms`))
  }, stallMs / checks)
  timer.unref()
  return () => clearInterval(timer)
}

/** The problem of a Redis that answers but rejects writes, because it has reached its `maxmemory`. */
export const outOfMemory = 'the log is out of memory'

/**
 * Returns whether Redis is out of memory. The error begins with `OOM`; from a script, `ERR` and the script's
 * name may precede it.
 */
export function isOutOfMemory(error: unknown): boolean {
  return error instanceof Error && /\bOOM command not allowed/.test(error.message)
}

/** @throws LogRejection `unavailable` for the error of a Redis command */
export function unavailable(error: unknown): never {
  throw new LogRejection('unavailable', isOutOfMemory(error) ? outOfMemory : 'the log cannot be reached')
}
