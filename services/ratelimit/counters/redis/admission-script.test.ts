import assert from 'node:assert/strict'
import { after, before, describe, type TestContext, test } from 'node:test'
import { systemClock } from '@tollway/chassis/clock.ts'
import { sample } from 'fast-check'
import { type RedisServer, startRedis } from '../../../../test/support/redis-server.ts'
import { missingProgram } from '../../../../test/support/require-server.ts'
import { emptyingHits, type LimitCheck, type LimitOutcome } from '../admission/limit-check.ts'
import { createMemoryAdmission } from '../admission/memory-admission.ts'
import { createMemoryCounters } from '../memory.ts'
import { openRedis, problemOf } from '../testing/open-redis-counters.ts'
import {
  assertEqualsOracle,
  checkOf,
  leaseTrace,
  oracles,
  runLeaseTrace,
  type Trace,
  type TracedAlgorithm,
  trace,
} from '../testing/traces.ts'
import type { RedisCounters } from './redis-setup.ts'

/** The number of traces of each algorithm. `make soak` runs a million. */
const traces = Number(process.env['TRACES'] ?? 2_500)
/** The number of traces that run at the same time, each with keys of its own. */
const atOnce = 500

const secondsOfBeginning = 1_700_000_000

describe('admission in Redis', { skip: missingProgram('redis-server') }, () => {
  let redis: RedisServer
  before(async () => {
    redis = await startRedis()
  })
  after(() => redis.stop())

  async function open(t: TestContext, timeMicros?: (checks: readonly LimitCheck[]) => number | undefined) {
    const counters = await openRedis(t, { url: redis.socketPath, ...(timeMicros && { timeMicros }) })
    t.after(() => counters.close())
    return counters
  }

  for (const algorithm of Object.keys(oracles) as TracedAlgorithm[]) {
    test(`${algorithm} equals its oracle and the algorithm in memory on ${traces} traces`, async t => {
      const times = new Map<string, number>()
      const counters = await open(t, ([check]) => times.get(check?.key ?? ''))
      for (let done = 0; done < traces; done += atOnce) {
        const some = sample(trace, Math.min(atOnce, traces - done))
        await Promise.all(
          some.map((traced, index) => runTrace(counters, times, algorithm, traced, `${algorithm} ${index}`)),
        )
        await redis.command('FLUSHALL')
      }
    })
  }

  for (const algorithm of Object.keys(oracles) as TracedAlgorithm[]) {
    test(`grants and resets of a ${algorithm} equal those in memory`, async t => {
      const times = new Map<string, number>()
      const counters = await open(t, ([check]) => times.get(check?.key ?? ''))
      const changed = sample(trace, Math.min(traces, 1_000)).map(({ calls, ...same }) => ({
        ...same,
        calls: calls.map((call, index) => ({ ...call, hits: changedHits(call.hits, index) })),
      }))
      await Promise.all(
        changed.map((traced, index) => {
          const key = `changed ${algorithm} ${index}`
          return runTrace(counters, times, algorithm, traced, key, { withOracle: false })
        }),
      )
    })
  }

  for (const algorithm of ['FixedWindow', 'TokenBucket'] as const) {
    test(`leases of a ${algorithm} equal those in memory, and never admit more than the limit`, async t => {
      const times = new Map<string, number>()
      const counters = await open(t, ([check]) => times.get(check?.key ?? ''))
      for (let done = 0; done < traces; done += atOnce) {
        const some = sample(leaseTrace, Math.min(atOnce, traces - done))
        await Promise.all(
          some.map(async (traced, index) => {
            let now = { nowMs: 0, monotonicMs: 0 }
            const memory = createMemoryCounters({
              clock: { nowMs: () => now.nowMs, monotonicMs: () => now.monotonicMs },
            })
            await runLeaseTrace(algorithm, traced, `lease ${algorithm} ${index}`, async (check, nowMs) => {
              now = { nowMs, monotonicMs: nowMs }
              times.set(check.key, nowMs * 1_000)
              const [outcome] = await counters.admit([check])
              const [expected] = await memory.admit([check])
              assert.deepEqual({ ...outcome, atMicros: undefined }, { ...expected, atMicros: undefined })
              return outcome as LimitOutcome
            })
          }),
        )
        await redis.command('FLUSHALL')
      }
    })
  }

  test('calls of one turn with the same limits have the answers of their order', async t => {
    const counters = await open(t)
    const check = checkOf('TokenBucket', 'folded', 60, { hits: 1, limit: 1, burst: 3 })
    const outcomes = await Promise.all(Array.from({ length: 5 }, () => counters.admit([check])))
    assert.deepEqual(
      outcomes.map(([outcome]) => [outcome?.admitted, outcome?.remaining]),
      [
        [true, 2],
        [true, 1],
        [true, 0],
        [false, 0],
        [false, 0],
      ],
    )
  })

  test('a call counts in every limit or in none, also the counter of a fixed window', async t => {
    const counters = await open(t)
    const whole = { hits: 1, limit: 2, burst: 2 }
    const window: LimitCheck = { ...checkOf('TokenBucket', '{a}fixed', 60, whole), algorithm: 'FixedWindow' }
    const checks = [window, checkOf('SlidingWindow', '{a}sliding', 600, { ...whole, limit: 5 })]
    for (const expected of [true, true, false, false]) {
      const outcomes = await counters.admit(checks)
      assert.deepEqual(
        outcomes.map(({ admitted }) => admitted),
        [expected, true],
      )
    }
    assert.equal(await redis.command('GET', '{a}fixed'), '2')
    assert.equal(await redis.command('HGET', '{a}sliding', 'current'), '2')
    assert.ok(Number(await redis.command('TTL', '{a}fixed')) > 0)
    assert.deepEqual(await counters.add([{ key: '{a}fixed', hits: 1, expirySeconds: 60, limit: 2 }]), [3])
  })

  test('checks of one call with the same key are counted one after the other', async t => {
    const counters = await open(t)
    for (const algorithm of ['TokenBucket', 'SlidingWindow'] as const) {
      const check = checkOf(algorithm, `twice ${algorithm}`, 3_600, { hits: 1, limit: 3, burst: 3 })
      const admittedOf = async (...checks: readonly LimitCheck[]) =>
        (await counters.admit(checks)).map(({ admitted }) => admitted)
      assert.deepEqual(await admittedOf(check, check), [true, true])
      assert.deepEqual(await admittedOf(check, check), [true, false])
      assert.deepEqual(await admittedOf(check), [true])
      assert.deepEqual(await admittedOf(check), [false])
    }
  })

  test('calls of one turn that are rejected count in their order, and keep the state for as long', async t => {
    const counters = await open(t)
    const whole = { hits: 2, limit: 1, burst: 3, countRejected: true }
    for (const algorithm of ['FixedWindow', 'SlidingWindow', 'TokenBucket'] as const) {
      const limit = algorithm === 'TokenBucket' ? 1 : 3
      const check = {
        ...checkOf('TokenBucket', `counted ${algorithm}`, 3_600, { ...whole, limit }),
        algorithm,
      }
      const outcomes = await Promise.all(Array.from({ length: 4 }, () => counters.admit([check])))
      assert.deepEqual(
        outcomes.map(([outcome]) => [outcome?.admitted, outcome?.remaining]),
        [
          [true, 1],
          [false, -1],
          [false, -3],
          [false, -5],
        ],
        algorithm,
      )
    }
    const ttl = Number(await redis.command('TTL', 'counted TokenBucket'))
    assert.ok(ttl > 7.99 * 3_600 && ttl <= 8 * 3_600, `${ttl}`)
    const [check] = await counters.admit([
      checkOf('TokenBucket', 'counted TokenBucket', 3_600, { ...whole, hits: 0 }),
    ])
    const wait = check?.waitSeconds ?? 0
    assert.ok(!check?.admitted && wait > 5.99 * 3_600 && wait <= 6 * 3_600, `${wait}`)
  })

  test('of several limits, those that count rejected hits count them, also beside an admitting one', async t => {
    const counters = await open(t)
    const memory = createMemoryCounters({ clock: systemClock })
    const whole = { hits: 2, limit: 3, burst: 3 }
    const counting = { ...whole, limit: 9, countRejected: true }
    const checks = [
      { ...checkOf('TokenBucket', '{b}fixed', 3_600, counting), algorithm: 'FixedWindow' },
      checkOf('SlidingWindow', '{b}rejecting', 3_600 * 24 * 365, whole),
      checkOf('SlidingWindow', '{b}sliding', 3_600 * 24 * 365, counting),
    ] as const
    for (const remaining of [
      [7, 1, 7],
      [5, 1, 5],
      [3, 1, 3],
      [1, 1, 1],
      [-1, 1, -1],
    ]) {
      const outcomes = await counters.admit(checks)
      assert.deepEqual(
        outcomes.map(each => each.remaining),
        remaining,
      )
      assert.deepEqual(
        (await memory.admit(checks)).map(each => each.remaining),
        remaining,
      )
    }
    assert.equal(await redis.command('GET', '{b}fixed'), '10')
    assert.equal(await redis.command('HGET', '{b}rejecting', 'current'), '2')
  })

  test('counts beyond the exact numbers stay at the last exact one', async t => {
    const counters = await open(t)
    const hits = Number.MAX_SAFE_INTEGER
    const whole = { hits, limit: 3, burst: 3, countRejected: true }
    const fixed: LimitCheck = {
      ...checkOf('TokenBucket', 'most fixed', 3_600, whole),
      algorithm: 'FixedWindow',
    }
    const sliding = checkOf('SlidingWindow', 'most sliding', 3_600, whole)
    const most = checkOf('TokenBucket', 'most bucket', 3_600, whole)
    for (const check of [fixed, sliding, most, fixed, sliding, most]) {
      assert.equal((await counters.admit([check]))[0]?.admitted, false)
    }
    assert.equal(await redis.command('GET', 'most fixed'), `${hits}`)
    assert.equal(await redis.command('HGET', 'most sliding', 'current'), `${hits}`)
    const debt = Number(await redis.command('HGET', 'most bucket', 'debt'))
    assert.ok(debt <= 2 ** 52 && debt > 2 ** 52 - 3 * 3_600, `${debt}`)
  })

  test('a check creates no key, and a state expires when it equals an empty one', async t => {
    const counters = await open(t)
    const check = checkOf('TokenBucket', 'expiring', 60, { hits: 2, limit: 30, burst: 10 })
    const [checked] = await counters.admit([{ ...check, hits: 0 }])
    assert.ok(checked)
    const { atMicros = 0, ...outcome } = checked
    assert.deepEqual(outcome, { admitted: true, remaining: 10, waitSeconds: 0 })
    const [seconds = '', micros = ''] = (await redis.command('TIME')).split(/\s+/)
    const laterMicros = Number(seconds) * 1_000_000 + Number(micros) - atMicros
    assert.ok(laterMicros >= 0 && laterMicros < 60_000_000, `${laterMicros} µs`)
    assert.equal(await redis.command('EXISTS', 'expiring'), '0')
    await counters.admit([check])
    const ttl = Number(await redis.command('PTTL', 'expiring'))
    assert.ok(ttl > 3_000 && ttl <= 4_000, `${ttl}`)
  })

  test('a change of the tick keeps the state', async t => {
    const counters = await open(t, () => secondsOfBeginning * 1_000_000)
    const day = 86_400
    const slow = checkOf('TokenBucket', 'ticks', day * 1_000_000, {
      hits: 1_000,
      limit: 1_000,
      burst: 1_000,
    })
    const [first] = await counters.admit([{ ...slow, ticksPerSecond: 1_000_000 }])
    const atMicros = secondsOfBeginning * 1_000_000
    assert.deepEqual(first, { admitted: true, remaining: 0, waitSeconds: day, atMicros })
    const fast = checkOf('TokenBucket', 'ticks', day * 1_000, { hits: 0, limit: 1e7, burst: 1e7 })
    const [second] = await counters.admit([{ ...fast, ticksPerSecond: 1_000 }])
    assert.equal(second?.remaining, 1e7 - 1_000)
  })

  test('a login without scripts, or without HSET, has an obstacle that names the command', async t => {
    await redis.command('ACL', 'SETUSER', 'plain', 'on', '>pw', '~*', '+@all', '-@scripting')
    await redis.command('ACL', 'SETUSER', 'flat', 'on', '>pw', '~p:*', '+@all', '-hset')
    await redis.command('ACL', 'SETUSER', 'short', 'on', '>pw', '~p:*', '+@all', '-zrem')
    const obstacleOf = async (user: string, ...features: string[]) => {
      const counters = await openRedis(t, { url: redis.socketPath, auth: `${user}:pw` })
      t.after(() => counters.close())
      return await counters.findObstacle('p:', features)
    }
    assert.match(await obstacleOf('plain'), /no permissions to run the 'evalsha' command/)
    assert.match(await obstacleOf('flat'), /can't run this command.*the script needs GET, HMGET, HSET/)
    assert.equal(await obstacleOf('short', 'algorithms'), '')
    const ofHolds = await obstacleOf('short', 'algorithms', 'concurrency')
    assert.match(ofHolds, /can't run this command.*the script needs ZADD, ZRANGEBYSCORE, ZREM/)
    assert.equal(await (await open(t)).findObstacle('', ['concurrency', 'quota']), '')
    await redis.command('ACL', 'SETUSER', 'unread', 'on', '>pw', '~p:*', '+@all', '-hget')
    assert.equal(await obstacleOf('unread', 'concurrency'), '')
    assert.match(await obstacleOf('unread', 'quota'), /can't run this command.*the script needs HGET, HSET/)
    assert.equal(await redis.command('EXISTS', '{tollway-probe}:TokenBucket'), '1')
  })

  test('1,000 holds keep their hits and their ends while the limit and the lease change', async t => {
    let nowSeconds = 1_000
    const counters = await open(t, () => nowSeconds * 1_000_000)
    const askFor = async (hits: number, limit: number, leaseSeconds: number) => {
      const check = checkOf('Concurrency', 'held', leaseSeconds, { hits, limit, burst: limit })
      return (await counters.admit([check]))[0]
    }
    await Promise.all(Array.from({ length: 1_000 }, () => askFor(1, 1_000, 100)))
    assert.deepEqual(await askFor(1, 1_000, 100).then(each => [each?.admitted, each?.waitSeconds]), [
      false,
      100,
    ])
    assert.equal((await askFor(0, 10, 5))?.remaining, -990, 'a lower limit releases nothing')
    assert.equal((await askFor(1, 10, 5))?.waitSeconds, 100)
    assert.equal((await askFor(2, 1_002, 5))?.admitted, true, 'a higher limit has room')
    nowSeconds += 5
    assert.equal((await askFor(0, 1_002, 5))?.remaining, 2, 'the shorter lease is over')
    nowSeconds += 94
    assert.equal((await askFor(0, 1_002, 86_400))?.remaining, 2)
    nowSeconds += 1
    assert.equal((await askFor(0, 1_002, 86_400))?.remaining, 1_002, 'no hold outlives its lease')
    await askFor(1, 1, 5)
    await askFor(-1, 1, 5)
    assert.equal(await redis.command('EXISTS', 'held'), '0', 'nothing is left of what is over')
    const real = await open(t)
    const leased = checkOf('Concurrency', 'leased', 60, { hits: 1, limit: 2, burst: 2 })
    await real.admit([leased])
    await real.admit([{ ...leased, windowTicks: 5 }])
    const ttl = Number(await redis.command('TTL', 'leased'))
    assert.ok(ttl > 30 && ttl <= 60, `the key lives as long as its longest hold: ${ttl}`)
    await redis.command('FLUSHALL')
    assert.equal((await real.admit([leased]))[0]?.remaining, 1)
  })

  test('a key of another type is an error of its call alone', async t => {
    const counters = await open(t)
    await redis.command('SET', 'text', 'x')
    const other = checkOf('TokenBucket', 'other', 60, { hits: 1, limit: 1, burst: 1 })
    const beside = counters.admit([other])
    const call = counters.admit([checkOf('TokenBucket', 'text', 60, { hits: 1, limit: 1, burst: 1 })])
    assert.match(await problemOf(call), /WRONGTYPE/)
    assert.equal((await beside)[0]?.admitted, true)
  })
})

/**
 * Runs the calls of a trace one after the other, and compares each with the oracle and with
 * `createMemoryAdmission`.
 */
async function runTrace(
  counters: RedisCounters,
  timesMicros: Map<string, number>,
  algorithm: TracedAlgorithm,
  traced: Trace,
  key: string,
  { withOracle } = { withOracle: true },
): Promise<void> {
  const { windowTicks, ticksPerSecond, calls } = traced
  const oracle = oracles[algorithm](windowTicks)
  const inMemory = openMemory()
  for (const call of calls) {
    timesMicros.set(key, call.now * (1_000_000 / ticksPerSecond))
    const grants = { grants: !withOracle }
    const check = { ...checkOf(algorithm, key, windowTicks, call), ticksPerSecond, ...grants }
    const [outcome] = await counters.admit([check])
    assert.ok(outcome)
    const { atMicros: _, ...decided } = outcome
    try {
      assert.deepEqual(decided, inMemory(Math.round((call.now / ticksPerSecond) * 1_000), check))
      if (withOracle) assertEqualsOracle(oracle, call, outcome, ticksPerSecond)
    } catch (error) {
      throw new Error(`${algorithm}, call ${calls.indexOf(call)} of ${JSON.stringify(traced)}`, {
        cause: error,
      })
    }
  }
}

/** Makes every third call grant hits, and every seventh empty the state. */
function changedHits(hits: number, index: number): number {
  if (index % 7 === 6) return emptyingHits
  return index % 3 === 2 ? -Math.min(Math.abs(hits), 0xffffffff) : Math.max(0, hits)
}

function openMemory(): (nowMs: number, check: LimitCheck) => LimitOutcome | undefined {
  const clock = { at: 0, nowMs: () => clock.at, monotonicMs: () => 0 }
  const { admit } = createMemoryAdmission({ clock, maxKeys: 10, count: () => 0 })
  return (nowMs, check) => {
    clock.at = nowMs
    return admit([check])[0]
  }
}
