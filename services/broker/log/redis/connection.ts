import type { ConnectionOptions as TlsOptions } from 'node:tls'
import { createBackoff } from '@tollway/chassis/backoff.ts'
import { Redis } from 'ioredis'
import { watchSilence } from './silence-watch.ts'

/**
 * One connection to Redis, re-established when it is lost. Commands are neither queued while it is down nor
 * repeated automatically: the caller decides whether to repeat a command.
 */
export interface RedisConnection {
  readonly ready: boolean
  /** The reason for not being ready; empty if ready. */
  readonly problem: string
  /** Rejects if there is no connection, if it is lost before the reply, or if Redis returns an error. */
  call(command: string, ...args: readonly Argument[]): Promise<unknown>
  /** Resolves when it is ready; rejects after `timeoutMs`, and when it is closed. */
  whenReady(timeoutMs?: number): Promise<void>
  /** Called each time it becomes ready or stops being ready. */
  onChange(listener: (ready: boolean) => void): void
  close(): void
}

export type Argument = string | number | Uint8Array

export interface RedisConnectionOptions {
  /**
   * `redis://[user:password@]host[:port][/database]`, `rediss://…` for TLS, `host:port`, or the path of a
   * unix socket.
   */
  readonly url: string
  /** For `rediss://`: the options of node's TLS besides host and port. */
  readonly tls?: TlsOptions
  /** The timeout to connect, and for a pending reply without any data. */
  readonly stallMs: number
  /** Uniform in [0, 1). */
  readonly random: () => number
}

export const redisUrlForms =
  'redis://[user[:password]@]host[:port][/database], rediss://…, host:port or the absolute path of a unix socket'

/** @throws Error with the accepted forms of the URL, without the URL itself, which may contain a password */
export function connectRedis(options: RedisConnectionOptions): RedisConnection {
  const { tls, stallMs, random } = options
  const url = isHostPort(options.url) ? `redis://${options.url}` : options.url
  if (!isRedisUrl(url)) throw new Error(`the address of Redis must be ${redisUrlForms}`)
  const backoff = createBackoff({ initialMs: 20, maxMs: 500, factor: 2, jitter: 0.5, random })
  const listeners: ((ready: boolean) => void)[] = []
  let ready = false
  let connected = false
  let closed = false
  /** The number of pending replies. */
  let owed = 0
  let problem = 'no connection to Redis yet'

  const redis = new Redis(url, {
    lazyConnect: true,
    // The replies of RESP3 have other types.
    protocol: 2,
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    // With 0, commands in flight are rejected as soon as the connection is lost, not when the next one is
    // ready.
    maxRetriesPerRequest: 0,
    retryStrategy: () => backoff.nextMs(),
    // After a failover the old primary is a replica; the address leads to the new one.
    reconnectOnError: error => /^(READONLY|MASTERDOWN)/.test(error.message),
    connectTimeout: stallMs,
    disableClientInfo: true,
    ...(tls === undefined || !url.startsWith('rediss:') ? {} : { tls }),
  })

  // Before it is ready, the replies of the handshake are pending.
  const silence = watchSilence(redis, { stallMs, owes: () => owed > 0 || (connected && !ready) })

  /** Sends the commands of one turn of the event loop in one write. */
  function gather(): void {
    const { stream } = redis
    if (!ready || stream.writableCorked > 0) return
    stream.cork()
    setImmediate(() => stream.uncork())
  }

  function change(next: boolean): void {
    if (ready === next) return
    ready = next
    if (next) problem = ''
    for (const listener of [...listeners]) listener(next)
  }

  redis.on('error', (error: Error) => {
    if (!ready) problem = `Redis: ${error.message}`
  })
  redis.on('connect', () => {
    connected = true
  })
  redis.on('ready', () => {
    backoff.reset()
    change(true)
  })
  redis.on('close', () => {
    connected = false
    problem = closed ? 'closed' : problem || 'the connection to Redis was lost'
    change(false)
  })
  redis.connect().catch(() => {})

  return {
    get ready() {
      return ready
    },
    get problem() {
      return problem
    },
    async call(command, ...args) {
      gather()
      owed += 1
      try {
        return await redis.callBuffer(command, args.map(asIoredisArgument))
      } finally {
        owed -= 1
      }
    },
    whenReady(timeoutMs) {
      if (ready) return Promise.resolve()
      if (closed) return Promise.reject(new Error('closed'))
      return new Promise((resolve, reject) => {
        const timer = timeoutMs === undefined ? undefined : setTimeout(settle, timeoutMs)
        function settle(): void {
          clearTimeout(timer)
          listeners.splice(listeners.indexOf(settle), 1)
          if (ready) resolve()
          else reject(new Error(problem))
        }
        listeners.push(settle)
      })
    },
    onChange(listener) {
      listeners.push(listener)
    },
    close() {
      closed = true
      problem = 'closed'
      silence.stop()
      redis.disconnect()
      // Notifies callers that wait for the next connection.
      for (const listener of [...listeners]) listener(false)
    },
  }
}

function isHostPort(url: string): boolean {
  return /^([\w.-]+|\[[\da-fA-F:.]+\]):\d{1,5}$/.test(url)
}

function isRedisUrl(url: string): boolean {
  if (url.startsWith('/')) return true
  const parsed = URL.parse(url)
  return parsed !== null && /^rediss?:$/.test(parsed.protocol) && parsed.hostname !== ''
}

/** ioredis writes the bytes of a Buffer, but the text of the numbers of any other array. */
function asIoredisArgument(argument: Argument): string | number | Buffer {
  if (typeof argument !== 'object') return argument
  return Buffer.from(argument.buffer, argument.byteOffset, argument.byteLength)
}
