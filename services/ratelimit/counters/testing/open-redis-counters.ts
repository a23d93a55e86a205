import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import { CountersError, type Hit, maxCount } from '../counters.ts'
import { createRedisCounters } from '../redis/redis.ts'
import type { RedisCounters, RedisCountersOptions } from '../redis/redis-setup.ts'

/** Long enough for a busy machine: only the tests of the time limits themselves use short ones. */
const patience = { deadlineMs: 5_000, stallTimeoutMs: 20_000 }

const waiting = { interval: 5, timeout: 15_000 }

export type TestedOptions = Partial<RedisCountersOptions> & Pick<RedisCountersOptions, 'url'>

/** Opens counters with long time limits and waits until Redis has answered. */
export async function openRedis(
  t: Pick<TestContext, 'waitFor'>,
  options: TestedOptions,
): Promise<RedisCounters> {
  const counters = createRedisCounters({ ...patience, random: Math.random, ...options })
  try {
    await t.waitFor(() => assert.equal(counters.problem, ''), waiting)
  } catch (error) {
    await counters.close()
    throw error
  }
  return counters
}

export function hit(key: string, hits = 1, expirySeconds = 60, limit = maxCount): Hit {
  return { key, hits, expirySeconds, limit }
}

/** Resolves with the reason why the call was rejected. */
export async function problemOf(call: Promise<unknown>): Promise<string> {
  const error = await call.then(
    value => assert.fail(`it was answered: ${value}`),
    (reason: unknown) => reason,
  )
  assert.ok(error instanceof CountersError, String(error))
  return error.message
}

export interface Load {
  /** The value of the first hit of each call that was answered. */
  readonly values: readonly number[]
  /** The errors of the calls that failed; they may have been counted. */
  readonly failures: readonly string[]
  stop(): Promise<void>
}

/**
 * Starts workers that add hits in a loop, even if calls fail, until they are stopped or the test ends.
 *
 * @param batchOf returns the hits of the call with that number; one hit of the key `load` when left out
 */
export function startLoad(
  t: Pick<TestContext, 'after'>,
  counters: RedisCounters,
  batchOf: (call: number) => readonly Hit[] = () => [hit('load')],
): Load {
  const values: number[] = []
  const failures: string[] = []
  let calls = 0
  let running = true
  async function work(): Promise<void> {
    while (running) {
      // Without a connection a call would be rejected at once, so the worker waits and makes none.
      if (!counters.healthy) {
        await new Promise(resolve => setImmediate(resolve))
        continue
      }
      calls += 1
      try {
        const [value = Number.NaN] = await counters.add(batchOf(calls))
        values.push(value)
      } catch (error) {
        failures.push((error as Error).message)
      }
    }
  }
  const workers = Array.from({ length: 10 }, work)
  async function stop(): Promise<void> {
    running = false
    await Promise.all(workers)
  }
  // The workers must also stop when the test fails.
  t.after(stop)
  return { values, failures, stop }
}
