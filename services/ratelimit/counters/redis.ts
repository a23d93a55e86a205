import { createBackoff } from '@tollway/chassis/backoff.ts'
import type { Clock } from '@tollway/chassis/clock.ts'
import { type Counters, CountersError, type Hit } from './counters.ts'
import { createPipeline, type OnIncrementReplies } from './pipeline.ts'
import { parseRedisAddress } from './redis-address.ts'
import { createRespConnection, type RespConnection } from './resp/connection.ts'
import { isErrorReply, type Reply } from './resp/reply-parser.ts'
import { createRequestWriter, requestHead } from './resp/request-writer.ts'
import { openSession, type SessionOptions, type TlsOptions } from './resp/session.ts'
import type { Increment, IncrementReply } from './sum-equal-keys.ts'
import { createTouchedKeys, type TouchedKeys } from './touched-keys.ts'

export interface RedisCountersOptions {
  /** `host:port`, the path of a unix socket, or a `redis://` URL. */
  readonly url: string
  /** Decides only where `url` is a bare name; see `parseRedisAddress`. */
  readonly socketType?: 'unix' | 'tcp'
  /** `password` or `user:password`; goes before what the URL says. */
  readonly auth?: string
  /** TLS, when given. */
  readonly tls?: TlsOptions
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

export interface RedisCounters extends Counters {
  add(batch: readonly Hit[]): Promise<readonly number[]>
}

/** Redis's own word for a sum beyond 64 bits. */
const overflowError = /^ERR increment or decrement would overflow/
/** What such a counter is answered as: beyond any value that can be told, and so is each share of the sum. */
const overflown = 2n ** 63n

const incrby = requestHead('INCRBY', 2)
const expire = requestHead('EXPIRE', 2)
const get = requestHead('GET', 1)

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
export function createRedisCounters(options: RedisCountersOptions): RedisCounters {
  const { url, socketType = 'tcp', auth = '', onWarning } = options
  const session: SessionOptions = {
    ...parseRedisAddress(url, socketType, auth),
    ...(options.tls === undefined ? {} : { tls: options.tls }),
    timeoutMs: options.stallTimeoutMs ?? 1_000,
    ...(options.clock === undefined ? {} : { clock: options.clock }),
  }
  const { random } = options
  const backoff = createBackoff({ initialMs: 50, maxMs: 1_000, factor: 2, jitter: 0.5, random })
  const connection = createRespConnection({ ...session, backoff })
  const touchedKeys = createTouchedKeys(options.maxTouchedKeys ?? 100_000)
  const pipeline = createPipeline({
    send: createSender(connection),
    touchedKeys,
    deadlineMs: options.deadlineMs ?? 15,
    windowMs: options.pipelineWindowMs ?? 0,
    limit: options.pipelineLimit ?? 0,
    maxHitsInFlight: options.maxHitsInFlight ?? 20_000,
    ...(options.clock === undefined ? {} : { clock: options.clock }),
  })
  // Redis may come back empty: every key is new to it then.
  forgetWhenLost(connection, touchedKeys)
  if (onWarning !== undefined) warnOnce(connection, session, onWarning)
  let closed = false
  return {
    add(batch) {
      if (closed || connection.healthy) return pipeline.add(batch)
      return Promise.reject(new CountersError(connection.problem))
    },
    get healthy() {
      return connection.healthy
    },
    onHealth: connection.onHealth,
    close() {
      closed = true
      pipeline.close()
      return connection.close()
    },
  }
}

function forgetWhenLost(connection: RespConnection, touchedKeys: TouchedKeys): void {
  connection.onHealth(healthy => {
    if (!healthy) touchedKeys.clear()
  })
}

/** One write. Redis runs the commands in order, each for itself, so one that fails leaves the others be. */
function createSender(connection: RespConnection) {
  const requests = createRequestWriter()

  function writeExpiry({ key, expirySeconds, touched }: Increment): void {
    requests.begin(expire)
    requests.text(key)
    requests.integer(expirySeconds)
    touched.expirySent = true
  }

  /** Whether an EXPIRE goes with it. */
  function writeIncrement(increment: Increment): boolean {
    requests.begin(increment.by === 0 ? get : incrby)
    requests.text(increment.key)
    if (increment.by === 0) return false
    requests.integer(increment.by)
    if (increment.touched.expirySent) return false
    writeExpiry(increment)
    return true
  }

  /** For keys that were touched before and yet were new: they had been evicted, flushed or had expired. */
  function sendExpiries(increments: readonly Increment[]): void {
    if (increments.length === 0) return
    for (const increment of increments) writeExpiry(increment)
    connection.send(requests, replies => {
      for (const [index, { touched }] of increments.entries()) {
        if (isFailure(replies[index])) touched.expirySent = false
      }
    })
  }

  return (increments: readonly Increment[], onReplies: OnIncrementReplies): void => {
    const firsts = increments.filter(writeIncrement)
    connection.send(requests, (replies, problem) => {
      const { answers, renewed } = readReplies(increments, firsts, replies)
      onReplies(answers, problem)
      sendExpiries(renewed)
    })
  }
}

/**
 * @param firsts those of the increments that an EXPIRE was sent with
 * @returns the answers as far as there are replies, and the increments whose key was new to Redis, but not to
 *   this process
 */
function readReplies(
  increments: readonly Increment[],
  firsts: readonly Increment[],
  replies: readonly Reply[],
): { answers: readonly IncrementReply[]; renewed: readonly Increment[] } {
  const answers: IncrementReply[] = []
  const renewed: Increment[] = []
  let position = 0
  let first = 0
  for (const increment of increments) {
    const reply = replies[position]
    position += 1
    if (reply !== undefined) answers.push(answerOf(reply))
    if (increment === firsts[first]) {
      if (isFailure(reply) || isFailure(replies[position])) increment.touched.expirySent = false
      position += 1
      first += 1
    } else if (increment.by > 0 && reply === increment.by) renewed.push(increment)
  }
  return { answers, renewed }
}

function isFailure(reply: Reply | undefined): boolean {
  return reply === undefined || isErrorReply(reply)
}

/** INCRBY brings an integer, GET a string or null. */
function answerOf(reply: Reply): IncrementReply {
  if (typeof reply === 'number' || typeof reply === 'bigint') return reply
  if (reply === null) return 0
  if (isErrorReply(reply)) return overflowError.test(reply.error) ? overflown : new CountersError(reply.error)
  if (typeof reply !== 'string' || !/^-?\d{1,19}$/.test(reply)) {
    return new CountersError('a counter in Redis is not a whole number')
  }
  const count = Number(reply)
  return Number.isSafeInteger(count) ? count : BigInt(reply)
}

function warnOnce(
  connection: RespConnection,
  session: SessionOptions,
  onWarning: (text: string) => void,
): void {
  let asked = false
  connection.onHealth(healthy => {
    if (!healthy || asked) return
    asked = true
    askAboutEviction(session, onWarning)
  })
}

/**
 * Asks once, on a connection of its own: a proxy that does not know INFO closes it. Not to be allowed to ask
 * is no reason to disturb anyone.
 */
function askAboutEviction(options: SessionOptions, onWarning: (text: string) => void): void {
  const session = openSession(options, {
    onServing() {
      const requests = createRequestWriter()
      requests.begin(requestHead('INFO', 1))
      requests.text('memory')
      session.send(requests, ([memory]) => {
        const text = typeof memory === 'string' ? evictionWarning(memory) : undefined
        if (text !== undefined) onWarning(text)
        session.end('all is known')
      })
    },
    onEnd() {},
  })
}

/** @param memory that section of INFO */
function evictionWarning(memory: string): string | undefined {
  const limitBytes = /^maxmemory:(\d+)/m.exec(memory)?.[1] ?? '0'
  const policy = /^maxmemory_policy:(\S+)/m.exec(memory)?.[1] ?? 'noeviction'
  if (limitBytes === '0' || policy === 'noeviction') return undefined
  return (
    `Redis has maxmemory-policy ${policy}: at its limit of ${limitBytes} bytes it may evict counters, ` +
    'and their limits then start anew; use noeviction'
  )
}
