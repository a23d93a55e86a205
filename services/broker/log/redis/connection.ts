import type { ConnectionOptions as TlsOptions } from 'node:tls'
import { createBackoff } from '@tollway/chassis/backoff.ts'
import { Redis } from 'ioredis'
import { watchSilence } from './silence-watch.ts'

/**
 * One connection to Redis, made anew whenever it is lost. Nothing is queued while it is down and nothing is
 * sent a second time by itself: whoever has sent a command knows whether it may be sent again.
 */
export interface RedisConnection {
  readonly ready: boolean
  /** Why it is not ready; empty when it is. */
  readonly problem: string
  /** Rejects when the connection is not there, is lost before the reply, or when Redis answers an error. */
  call(command: string, ...args: readonly Argument[]): Promise<unknown>
  /** Resolves when it is ready; rejects after `timeoutMs`, and when it is closed. */
  whenReady(timeoutMs?: number): Promise<void>
  /** Told each time when it has become ready, and when it no longer is. */
  onChange(listener: (ready: boolean) => void): void
  close(): void
}

export type Argument = string | number | Uint8Array

export interface RedisConnectionOptions {
  /**
   * `redis://[user:password@]host[:port][/database]`, `rediss://…` for TLS, `host:port`, or the path of a unix socket.
   */
  readonly url: string
  /** For `rediss://`: what node's TLS takes beyond host and port. */
  readonly tls?: TlsOptions
  /** A connection that is not made, or owes a reply and brings nothing, for so long is given up. */
  readonly stallMs: number
  /** Uniform in [0, 1). */
  readonly random: () => number
}

export const redisUrlForms =
  'redis://[user[:password]@]host[:port][/database], rediss://…, host:port or the absolute path of a unix socket'

/** @throws Error that tells the forms of the URL, and never the URL, since that may hold a password */
export function connectRedis(options: RedisConnectionOptions): RedisConnection {
  const { tls, stallMs, random } = options
  const url = isHostPort(options.url) ? `redis://${options.url}` : options.url
  if (!isRedisUrl(url)) throw new Error(`the address of Redis must be ${redisUrlForms}`)
  const backoff = createBackoff({ initialMs: 20, maxMs: 500, factor: 2, jitter: 0.5, random })
  const listeners: ((ready: boolean) => void)[] = []
  let ready = false
  let connected = false
  let closed = false
  /** Replies that have not come. */
  let owed = 0
  let problem = 'no connection to Redis yet'

  const redis = new Redis(url, {
    lazyConnect: true,
    // The replies of RESP3 have other shapes.
    protocol: 2,
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    // With 0, what is in flight is rejected as soon as the connection is lost, not when the next one is there.
    maxRetriesPerRequest: 0,
    retryStrategy: () => backoff.nextMs(),
    // After a failover the old primary is a replica; the address leads to the new one.
    reconnectOnError: error => /^(READONLY|MASTERDOWN)/.test(error.message),
    connectTimeout: stallMs,
    disableClientInfo: true,
    ...(tls === undefined || !url.startsWith('rediss:') ? {} : { tls }),
  })

  // Until it is ready, the answers of the handshake are owed.
  const silence = watchSilence(redis, { stallMs, owes: () => owed > 0 || (connected && !ready) })

  /** What is sent in one turn of the event loop goes in one write. */
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
      // Those who wait for the next connection are told that there is none.
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

/** ioredis writes the bytes of a Buffer, and of any other array the text of its numbers. */
function asIoredisArgument(argument: Argument): string | number | Buffer {
  if (typeof argument !== 'object') return argument
  return Buffer.from(argument.buffer, argument.byteOffset, argument.byteLength)
}
