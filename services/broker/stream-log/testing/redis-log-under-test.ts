import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import { systemClock } from '@tollway/chassis/clock.ts'
import { startBackendProxy } from '../../../../test/support/backend-proxy.ts'
import { type RedisServer, startRedis } from '../../../../test/support/redis-server.ts'
import { waitFor } from '../../../../test/support/wait-for.ts'
import { createRedisLog, type RedisLogOptions } from '../redis/redis-log.ts'
import type { RedisLogTimings } from '../redis/setup.ts'
import { systemRepeat } from '../repeat.ts'
import type { LoggedRequest, LogWriter, StreamLog } from '../stream-log.ts'
import { type Collected, toBytes } from './log-under-test.ts'

/** Shorter times than the defaults, so that tests wait less. */
export const quickTimings = {
  heartbeatMs: 50,
  lostMs: 800,
  answerMs: 400,
  directoryMs: 300,
  unavailableMs: 700,
  positionsMs: 20,
  stallMs: 300,
  orphanMs: 20_000,
}

/** Times with which faults are still detected soon, but requests survive on a slow machine. */
export const patientTimings = {
  ...quickTimings,
  lostMs: 30_000,
  answerMs: 10_000,
  unavailableMs: 30_000,
  orphanMs: 60_000,
}

let logs = 0

/** Opens a log on a Redis that is reachable; it is closed at the end of the test. */
export async function openRedisLog(
  t: Pick<TestContext, 'after'>,
  url: string,
  options: Partial<RedisLogOptions> = {},
): Promise<StreamLog> {
  logs += 1
  const log = createRedisLog({
    url,
    podId: `pod-${process.pid}-${logs}`,
    clock: systemClock,
    repeat: systemRepeat,
    random: Math.random,
    ...options,
  })
  t.after(() => log.close())
  const { promise, resolve } = Promise.withResolvers<void>()
  const stop = log.onHealth(() => resolve())
  if (!log.healthy) await promise
  stop()
  return log
}

/** Opens a log with `quickTimings`. */
export const openQuick = (t: TestContext, url: string) => openRedisLog(t, url, { timings: quickTimings })
/** Opens a log with `patientTimings`. */
export const openPatient = (t: TestContext, url: string, timings: Partial<RedisLogTimings> = {}) =>
  openRedisLog(t, url, { timings: { ...patientTimings, ...timings } })

/** Starts a Redis, which ends with the test. */
export async function serveRedis(t: TestContext, args: readonly string[] = []): Promise<RedisServer> {
  const redis = await startRedis(args)
  t.after(() => redis.stop())
  return redis
}

/** Opens a log with `quickTimings`, and a proxy between the log and Redis that makes faults. */
export async function openProxied(t: TestContext, redis: RedisServer, seed = 1) {
  const proxy = await startBackendProxy({ targetPort: redis.port, seed })
  t.after(() => proxy.stop())
  return { proxy, log: await openQuick(t, `redis://${proxy.address}`) }
}

/** Resolves with the request when the log knows it. */
export const requestAt = (log: StreamLog, requestId = 'r1'): Promise<LoggedRequest> =>
  waitFor(`the request ${requestId}`, () => log.list().find(({ ids }) => ids.requestId === requestId))

/** Appends the numbers of these positions, as texts. */
export function append(writer: LogWriter, from: number, to: number): void {
  for (let position = from; position <= to; position += 1) writer.append(toBytes(`${position}`))
}

/** Checks that the reader gets the entries of `append` up to this position, without a gap. */
export async function assertReads(reader: Collected, to: number): Promise<void> {
  await waitFor(
    () => `${to} entries, got ${reader.positions.at(-1)}`,
    () => reader.positions.at(-1) === to,
  )
  assert.deepEqual(reader.texts, ['header', ...Array.from({ length: to }, (_, index) => `${index + 1}`)])
  assert.equal(reader.cursor.takeGap(), 0)
}

/** Waits for the end of a reader, and describes it. */
export async function waitForEnd(reader: Collected): Promise<string> {
  const end = await waitFor('the end', () => reader.cursor.end)
  return end.how === 'completed' ? end.how : `${end.how}: ${end.status.code} ${end.status.message}`
}

/** Returns the entries of a request in Redis, as redis-cli prints them. */
export async function readStream(redis: RedisServer, request: LoggedRequest): Promise<string> {
  return await redis.command('XRANGE', `{tollway:broker}:entries:${request.key}`, '-', '+')
}
