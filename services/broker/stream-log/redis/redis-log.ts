import { setTimeout as pause } from 'node:timers/promises'
import type { ConnectionOptions as TlsOptions } from 'node:tls'
import type { Clock } from '@tollway/chassis/clock.ts'
import type { AnimationIds } from '../../wire/animation-ids.ts'
import { ByteBudget, defaultMaxKeptBytes } from '../byte-budget.ts'
import type { Repeat } from '../repeat.ts'
import {
  type EndListener,
  type LoggedRequest,
  LogRejection,
  type LogWriter,
  type Opening,
  type ResumedRequest,
  type Resumption,
  type StreamLog,
  shutdownEnd,
  shuttingDownRejection,
} from '../stream-log.ts'
import { RedisConnection } from './connection.ts'
import { Directory } from './directory.ts'
import { DirectorySync } from './directory-sync.ts'
import { endLostRequest, interruptRequests } from './end-request.ts'
import { Heartbeat } from './heartbeat.ts'
import { redisKeys } from './keys.ts'
import { openRequest, resumeRequest } from './open-request.ts'
import { decodeReports, PositionReports } from './position-reports.ts'
import { type FollowedStream, ReadLoop } from './read-loop.ts'
import { defaultTimings, type RedisLogSetup, type RedisLogTimings } from './setup.ts'

export interface RedisLogOptions {
  /** See `RedisConnectionOptions.url`. */
  readonly url: string
  /** TLS options for a `rediss:` URL. */
  readonly tls?: TlsOptions
  /** Unique among all processes that ever ran: the keys of requests begin with this name. */
  readonly podId: string
  readonly clock: Clock
  readonly repeat: Repeat
  /** Returns a number uniform in [0, 1). */
  readonly random: () => number
  /** Separates installations that share a Redis. */
  readonly keyPrefix?: string
  readonly timings?: Partial<RedisLogTimings>
  /** The limit of bytes in the memory of this broker, and of its requests in Redis; see `ByteBudget`. */
  readonly maxKeptBytes?: number
}

/** Readers of other brokers' requests wait for Redis this many times `unavailableMs`. */
const readersWaitFactor = 2
/** How long the ends of requests may take to reach Redis at a shutdown. */
const closeMs = 2_000

/** @throws Error for an invalid URL */
export function createRedisLog(options: RedisLogOptions): StreamLog {
  const { url, tls, random, podId, clock, repeat, keyPrefix = 'tollway' } = options
  const timings = { ...defaultTimings, ...options.timings }
  const connect = () =>
    new RedisConnection({ url, stallMs: timings.stallMs, random, ...(tls === undefined ? {} : { tls }) })
  const setup: RedisLogSetup = {
    podId,
    keys: redisKeys(keyPrefix),
    commands: connect(),
    clock,
    repeat,
    timings,
    budget: new ByteBudget(options.maxKeptBytes ?? defaultMaxKeptBytes),
  }
  return new RedisLog(setup, connect())
}

/**
 * A stream log that brokers share through the streams of one Redis.
 *
 * Consumers at the broker of a producer read its ring, and never wait for Redis. Consumers at other brokers
 * read a ring that is filled from Redis; after Redis was unavailable they continue at their position. Entries
 * and the end of a request reach Redis within `unavailableMs`, or the request ends with an error. If Redis
 * has lost data, readers get an error or a gap.
 *
 * Data goes one way: the read loop passes entries to the directory or to a ring, and the directory passes
 * changes to its requests.
 */
class RedisLog implements StreamLog {
  readonly budget: ByteBudget
  readonly #setup: RedisLogSetup
  readonly #reads: RedisConnection
  readonly #loop: ReadLoop
  readonly #reports: PositionReports
  readonly #directory: Directory
  readonly #sync: DirectorySync
  readonly #heartbeat: Heartbeat
  readonly #stopTicks: () => void
  #opened = 0
  #tickedMs: number
  #closed = false

  /** @param reads the connection of the read loop */
  constructor(setup: RedisLogSetup, reads: RedisConnection) {
    this.budget = setup.budget
    this.#setup = setup
    this.#reads = reads
    this.#loop = new ReadLoop(setup, reads)
    this.#reports = new PositionReports(setup)
    this.#directory = new Directory(setup, this.#loop, this.#reports)
    this.#sync = new DirectorySync(setup, this.#directory, this.#loop)
    this.#heartbeat = new Heartbeat({ setup, reads, directory: this.#directory, sync: this.#sync })
    this.#loop.follow(new Inbox(setup, this.#directory, () => this.#heartbeat.answer()))
    this.#tickedMs = setup.clock.monotonicMs()
    this.#stopTicks = setup.repeat(setup.timings.positionsMs, () => this.#tick())
  }

  async open(opening: Opening): Promise<LogWriter> {
    if (this.#closed) throw shuttingDownRejection()
    const { unsupported } = this.#heartbeat
    if (unsupported !== '') throw new LogRejection('unavailable', unsupported)
    this.#opened += 1
    const key = `${this.#setup.podId}.${this.#opened}`
    return await openRequest(this.#setup, this.#directory, key, opening)
  }

  async endLost(opening: Pick<Opening, 'ids' | 'bearerHash'>): Promise<boolean> {
    return await endLostRequest(this.#setup, this.#directory, this.#sync, opening)
  }

  async resume(resumption: Resumption): Promise<ResumedRequest> {
    if (this.#closed) throw shuttingDownRejection()
    return await resumeRequest(this.#setup, this.#directory, resumption)
  }

  watch(wanted: AnimationIds, onRequest: (request: LoggedRequest) => void): () => void {
    return this.#directory.watch(wanted, onRequest)
  }

  list(): readonly LoggedRequest[] {
    return this.#directory.all()
  }

  async interrupt(streamId: string, requestId: string): Promise<number> {
    return await interruptRequests(this.#setup, this.#directory, this.#sync, streamId, requestId)
  }

  get healthy(): boolean {
    return this.#heartbeat.healthy
  }

  get problem(): string {
    return this.#heartbeat.problem
  }

  onHealth(listener: (healthy: boolean) => void): () => void {
    return this.#heartbeat.onHealth(listener)
  }

  onEnd(listener: EndListener): () => void {
    return this.#directory.onEnd(listener)
  }

  async close(): Promise<void> {
    if (this.#closed) return
    this.#closed = true
    this.#directory.close()
    this.#stopTicks()
    this.#loop.close()
    const { commands } = this.#setup
    await Promise.race([
      Promise.all(this.#directory.running().map(local => local.shutDown(shutdownEnd))),
      pause(commands.ready ? closeMs : 0, undefined, { ref: false }),
    ])
    await this.#heartbeat.close()
    // Requests whose end has not reached Redis in time, and requests that have begun meanwhile.
    for (const local of this.#directory.running()) local.close(shutdownEnd)
    this.#reads.close()
    commands.close()
  }

  #tick(): void {
    const { timings } = this.#setup
    this.#extendDeadlinesAfterStall()
    this.#directory.tick()
    if (this.#heartbeat.readsUnavailableMs() > readersWaitFactor * timings.unavailableMs)
      this.#directory.closeRemote()
    this.#reports.sendDue()
  }

  /** Starts all timeouts again after a pause, in which the process could not read messages. */
  #extendDeadlinesAfterStall(): void {
    const { clock, timings } = this.#setup
    const nowMs = clock.monotonicMs()
    if (nowMs - this.#tickedMs > timings.positionsMs + timings.stallMs / 2) {
      this.#heartbeat.extendDeadlinesAfterStall()
    }
    this.#tickedMs = nowMs
  }
}

/**
 * Receives the messages for this broker: positions of readers at other brokers, and questions whether a
 * producer is connected. The heartbeat creates the stream.
 */
export class Inbox implements FollowedStream {
  readonly streamKey: string
  readonly wanted = true
  readonly #directory: Directory
  readonly #answer: () => void
  #after = '0-0'

  /** @param answer called if another broker asks about a producer that is connected */
  constructor({ keys, podId }: RedisLogSetup, directory: Directory, answer: () => void) {
    this.streamKey = keys.inbox(podId)
    this.#directory = directory
    this.#answer = answer
  }

  get after(): string {
    return this.#after
  }

  take(id: string, [from, reports, , asked]: readonly Uint8Array[]): void {
    this.#after = id
    // Answers later, so that the loss of a connection in the same turn is noticed before.
    if (asked !== undefined) setImmediate(() => this.#answerIfConnected(String(asked)))
    if (reports === undefined || reports.length === 0) return
    this.#directory.takeReports(String(from), decodeReports(String(reports)))
  }

  #answerIfConnected(run: string): void {
    if (this.#directory.get(run)?.running?.isLost === false) this.#answer()
  }
}
