import { setTimeout as pause } from 'node:timers/promises'
import type { ConnectionOptions as TlsOptions } from 'node:tls'
import type { Clock } from '@tollway/chassis/clock.ts'
import { ByteBudget, defaultMaxKeptBytes } from './byte-budget.ts'
import { connectRedis, type RedisConnection } from './redis/connection.ts'
import { createDirectory, type KnownRequest } from './redis/directory/directory.ts'
import { createDirectorySync } from './redis/directory/directory-sync.ts'
import { startHeartbeat } from './redis/directory/heartbeat.ts'
import { interruptRequests } from './redis/directory/interrupt-requests.ts'
import { redisKeys } from './redis/keys.ts'
import { awayStatus, lostDataStatus } from './redis/producing/local-request.ts'
import { createProducers } from './redis/producing/producers.ts'
import { resumeRequest } from './redis/producing/resume-request.ts'
import { createFeeds } from './redis/reading/feeds.ts'
import { createInbox } from './redis/reading/inbox.ts'
import { createPositionReports } from './redis/reading/positions.ts'
import { startReadLoop } from './redis/reading/read-loop.ts'
import { defaultTimings, type RedisLogSetup, type RedisLogTimings } from './redis/setup.ts'
import type { Repeat } from './repeat.ts'
import {
  type EndListener,
  LogRefusal,
  type RingCursor,
  type RingReader,
  type StreamLog,
  shuttingDownStatus,
} from './stream-log.ts'

export interface RedisLogOptions {
  /** See `RedisConnectionOptions.url`. */
  readonly url: string
  /** For a `rediss:` URL. */
  readonly tls?: TlsOptions
  /** Unique among all processes ever: a request's key begins with it. */
  readonly podId: string
  readonly clock: Clock
  readonly repeat: Repeat
  /** Uniform in [0, 1). */
  readonly random: () => number
  /** Separates installations that share a Redis. */
  readonly keyPrefix?: string
  readonly timings?: Partial<RedisLogTimings>
  /** The maximum bytes in the memory of this broker, and the same in Redis; see `ByteBudget`. */
  readonly maxKeptBytes?: number
}

const lostData = { how: 'lost', status: lostDataStatus } as const
const logAway = { how: 'lost', status: awayStatus } as const
const shuttingDown = { how: 'lost', status: shuttingDownStatus } as const
/** Readers of other brokers' requests wait for Redis this many times as long as producers. */
const readersWaitFactor = 2
/** The time for the last reports of a broker that shuts down. */
const closeMs = 2_000

/**
 * A log that brokers share over one Redis, in its streams.
 *
 * Consumers of a producer's own broker read its ring, and never wait for Redis. Consumers of other brokers
 * read a ring that is filled from Redis; after Redis was unavailable they continue at their position. A
 * request's entries and its end reach Redis within `awayMs`, or the request ends with an error; data that
 * Redis has lost is an error or a gap for its readers.
 *
 * @throws Error for an invalid URL
 */
export function createRedisLog(options: RedisLogOptions): StreamLog {
  const {
    url,
    tls,
    random,
    podId,
    clock,
    repeat,
    keyPrefix = 'tollway',
    maxKeptBytes = defaultMaxKeptBytes,
  } = options
  const timings = { ...defaultTimings, ...options.timings }
  const connect = () =>
    connectRedis({ url, stallMs: timings.stallMs, random, ...(tls === undefined ? {} : { tls }) })
  const setup: RedisLogSetup = {
    podId,
    keys: redisKeys(keyPrefix),
    commands: connect(),
    clock,
    repeat,
    timings,
    budget: new ByteBudget(maxKeptBytes),
  }
  return startRedisLog(setup, connect())
}

function startRedisLog(setup: RedisLogSetup, reads: RedisConnection): StreamLog {
  const { podId, commands, clock, repeat, timings } = setup
  const endListeners = new Set<EndListener>()
  const loop = startReadLoop({
    connection: reads,
    blockMs: Math.round(timings.stallMs / 2),
    interrupt: () => inbox.wake(),
  })
  const directory = createDirectory({
    nowMs: clock.nowMs,
    read,
    onEnded,
    onMoved(filed, local) {
      local?.moved()
      if (local === undefined) feeds.moved(filed)
      else feeds.adopt(filed, local.ring)
    },
    onForgotten: key => feeds.forget(key),
  })
  const producers = createProducers(setup, directory)
  const sync = createDirectorySync({ setup, directory, endOfOwn: producers.endOf, onVanished })
  const reports = createPositionReports(setup, () => feeds.slowest())
  const feeds = createFeeds({
    setup,
    loop,
    onEnd: (filed, { end, by }) => directory.learn({ ...filed, ended: { end, by, atMs: clock.nowMs() } }),
    onProgress: reports.soon,
    onLeft: reports.left,
  })
  const inbox = createInbox(setup, producers.heard)
  const heartbeat = startHeartbeat({
    ...{ setup, reads, directory, producers, sync },
    onSynced: () => loop.follow(sync.news),
  })
  let closed = false
  let tickedMs = clock.monotonicMs()

  async function read(key: string, reader: RingReader): Promise<RingCursor> {
    const known = directory.get(key)
    if (known === undefined) throw new LogRefusal('gone', 'no message of the request is kept any more')
    return known.local?.ring.read(reader) ?? (await feeds.read(known.filed, reader))
  }

  function onEnded({ filed: { key, ended }, request, local }: KnownRequest): void {
    if (ended === undefined) return
    const { end, by = '' } = ended
    local?.settle({ end, by })
    producers.settled(key)
    feeds.ended(key)
    if (by === podId) reportEnd(request, end, local?.progress)
  }

  /** The end of a request that Redis has lost is reported by the broker of its producer. */
  function onVanished({ filed, request, local }: KnownRequest): void {
    const { key } = filed
    const end = producers.endOf(key) ?? lostData
    local?.close(lostData)
    producers.settled(key)
    feeds.close(key, lostData)
    if (filed.ended === undefined && filed.podId === podId) reportEnd(request, end, local?.progress)
  }

  function reportEnd(...ended: Parameters<EndListener>): void {
    for (const report of endListeners) report(...ended)
  }

  /** While the process was paused it could not read messages: all timeouts start again. */
  function extendDeadlinesAfterStall(): void {
    const nowMs = clock.monotonicMs()
    if (nowMs - tickedMs > timings.positionsMs + timings.stallMs / 2) heartbeat.extendDeadlinesAfterStall()
    tickedMs = nowMs
  }

  function tick(): void {
    extendDeadlinesAfterStall()
    for (const local of producers.running()) local.tick()
    feeds.sweep()
    producers.sweep()
    if (heartbeat.readsAwayMs() > readersWaitFactor * timings.awayMs) feeds.closeAll(logAway)
    reports.tick()
    directory.sweep()
  }

  loop.follow(inbox)
  const stopTicks = repeat(timings.positionsMs, tick)
  return {
    async open(opening) {
      if (closed) throw new LogRefusal('unavailable', 'the broker is shutting down')
      if (heartbeat.unsupported !== '') throw new LogRefusal('unavailable', heartbeat.unsupported)
      return await producers.open(opening)
    },
    async resume(resumption) {
      if (closed) throw new LogRefusal('unavailable', 'the broker is shutting down')
      return await resumeRequest({ setup, directory, producers, feeds }, resumption)
    },
    watch: (wanted, onRequest) => directory.watch(wanted, onRequest),
    list: () => directory.all().map(({ request }) => request),
    interrupt: (streamId, requestId) => interruptRequests(setup, directory, sync, streamId, requestId),
    get healthy() {
      return heartbeat.healthy
    },
    get problem() {
      return heartbeat.problem
    },
    onHealth: heartbeat.onHealth,
    onEnd(listener) {
      endListeners.add(listener)
      return () => endListeners.delete(listener)
    },
    budget: setup.budget,
    async close() {
      if (closed) return
      closed = true
      directory.close()
      stopTicks()
      loop.close()
      await Promise.race([
        Promise.all(producers.running().map(local => local.shutDown(shuttingDown))),
        pause(commands.ready ? closeMs : 0, undefined, { ref: false }),
      ])
      for (const local of producers.running()) local.close(shuttingDown)
      await heartbeat.close()
      reads.close()
      commands.close()
    },
  }
}
