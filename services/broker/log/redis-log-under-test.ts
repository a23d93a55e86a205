import type { TestContext } from 'node:test'
import { systemClock } from '@tollway/chassis/clock.ts'
import { createRedisLog, type RedisLogOptions } from './redis.ts'
import { systemRepeat } from './repeat.ts'
import type { StreamLog } from './stream-log.ts'

/** Shorter than the defaults, so that tests wait less. */
export const quickTimings = {
  heartbeatMs: 50,
  lostMs: 800,
  directoryMs: 300,
  awayMs: 700,
  positionsMs: 20,
  stallMs: 300,
  orphanMs: 20_000,
}

/** Faults are detected soon, but requests survive on a slow machine. */
export const patientTimings = { ...quickTimings, lostMs: 30_000, awayMs: 30_000, orphanMs: 60_000 }

let logs = 0

/** A log on a reachable Redis; closed at the end of the test. */
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
