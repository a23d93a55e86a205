import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { after, before, describe, type TestContext, test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import {
  type RedisServer,
  type SteppedRedis,
  startRedis,
  startSteppedRedis,
} from '../../../../test/support/redis-server.ts'
import { missingProgram } from '../../../../test/support/require-server.ts'
import { waitFor } from '../../../../test/support/wait-for.ts'
import { createStats } from '../../stats/stats.ts'
import type { LimitCheck } from '../admission/limit-check.ts'
import { sendSums } from '../batching/sum-equal-keys.ts'
import { TouchedKeys } from '../batching/touched-keys.ts'
import { maxCount } from '../counters.ts'
import type { Ledger, ReservationChange } from '../reservations.ts'
import { connected } from '../testing/connect-to-redis.ts'
import { countersContract } from '../testing/counters.contract.ts'
import { hit, openRedis, problemOf, startLoad, type TestedOptions } from '../testing/open-redis-counters.ts'
import { clockStepsContract, reservationsContract } from '../testing/reservations.contract.ts'
import { stopWhenOverContract } from '../testing/stop-when-over.contract.ts'
import { createRedisCounters } from './redis.ts'
import { RedisReservations } from './redis-reservations.ts'
import type { RedisCounters } from './redis-setup.ts'
import { createIncrementSender } from './send-increments.ts'

const skip = missingProgram('redis-server')
const reliabilityPage = new URL('../../../../docs/operations/reliability.md', import.meta.url)

describe('counters in Redis', { skip }, () => {
  let redis: RedisServer
  before(async () => {
    redis = await startRedis()
  })
  after(() => redis.stop())

  countersContract('Redis over a unix socket', async t => {
    await redis.command('FLUSHALL')
    const url = redis.socketPath
    return { counters: await openRedis(t, { url }), peer: await openRedis(t, { url }) }
  })

  countersContract('Redis over TCP, with a window', async t => {
    await redis.command('FLUSHALL')
    const url = `127.0.0.1:${redis.port}`
    return {
      counters: await openRedis(t, { url, pipelineWindowMs: 1, pipelineLimit: 7 }),
      peer: await openRedis(t, { url }),
    }
  })

  reservationsContract('Redis', async t => {
    await redis.command('FLUSHALL')
    const [counters, peer] = await Promise.all([
      openRedis(t, { url: redis.url }),
      openRedis(t, { url: redis.url }),
    ])
    t.after(() => Promise.all([counters.close(), peer.close()]))
    return { counters, peer }
  })

  reservationsContract('Redis with a user who has only the documented commands', async t => {
    await redis.command('FLUSHALL')
    const page = readFileSync(reliabilityPage, 'utf8')
    const [, listed = ''] = /ACL SETUSER tollway (.*)/.exec(page) ?? []
    const commands = listed.split(' ').filter(word => word.startsWith('+'))
    const keys = ['~{t}*', '~*reservation*']
    await redis.command('ACL', 'SETUSER', 'restricted', 'reset', 'on', '>plain', ...keys, ...commands)
    const options = { url: redis.url, auth: 'restricted:plain' }
    const [counters, peer] = await Promise.all([openRedis(t, options), openRedis(t, options)])
    t.after(() => Promise.all([counters.close(), peer.close()]))
    return { counters, peer }
  })

  const ledger = (name: string): Ledger => ({
    key: `{t}:reservations:${name}`,
    checks: [
      {
        ...{ key: `{t}${name}`, algorithm: 'FixedWindow', hits: 0, limit: 10, burst: 10, windowTicks: 3600 },
        ...{ ticksPerSecond: 1, expirySeconds: 3600, shadow: false, countRejected: false },
      },
    ],
  })
  const index = '{reservations}:ledgers'

  test('a reservation is answered while the index of ledgers fails, and returns when it works', async t => {
    const { reservations } = await openShared(t)
    await redis.command('SET', index, 'of another type')
    const { reservation } = await reservations.reserve(ledger('a'), 'one', 4, 30)
    assert.equal(reservation?.state, 'open')
    assert.match(await problemOf(Promise.resolve(reservations.sweep(''))), /^WRONGTYPE /)
    assert.equal(await redis.command('GET', '{t}a'), '4')
    await redis.command('DEL', index)
    await waitFor('the amount to return', async () => {
      await reservations.sweep('')
      return (await redis.command('GET', '{t}a')) === '0'
    })
  })

  test('a reservation is answered when the index of ledgers has been told', async () => {
    const order: string[] = []
    const reservation = { state: 'open', amount: 4, actual: 0, expiresAtMs: 0 } as const
    const outcome = { reservation, isRepeated: false, limits: [], decreased: [], isUnindexed: true }
    const reservations = new RedisReservations({
      run: async () => outcome,
      async runIndex() {
        await setImmediate()
        order.push('told')
        return []
      },
    })
    await reservations.reserve(ledger('a'), 'one', 4, 60_000)
    await reservations.change(ledger('a').key, 'one', { do: 'extend', ttlMs: 60_000 })
    order.push('answered')
    assert.deepEqual(order, ['told', 'told', 'answered'])
  })

  test('a repetition tells the index of ledgers, which the process of the first call may not have told', async t => {
    const { reservations } = await openShared(t)
    for (let times = 0; times < 2; times += 1) {
      await reservations.reserve(ledger('a'), 'one', 4, 60_000)
      assert.notEqual(await redis.command('ZSCORE', index, ledger('a').key), '')
      await redis.command('DEL', index)
    }
    await reservations.change(ledger('a').key, 'one', { do: 'release' })
    await reservations.reserve(ledger('a'), 'one', 4, 60_000)
    assert.equal(await redis.command('EXISTS', index), '0')
  })

  test('the index is told once for many reservations of a ledger, and again if it has lost the ledger', async t => {
    let laterMicros = 0
    const timeMicros = () => Date.now() * 1000 + laterMicros
    const { reservations } = await openShared(t, { timeMicros })
    const shown = () => redis.command('ZSCORE', index, ledger('a').key)
    await reservations.reserve(ledger('a'), 'first', 1, 10_000)
    const first = await waitFor('the ledger to be shown', shown)
    for (const entry of ['b', 'c', 'd']) {
      await reservations.reserve(ledger('a'), entry, 1, 20_000)
      await reservations.change(ledger('a').key, entry, { do: 'commit', actual: 1 })
    }
    assert.equal(await shown(), first)
    await redis.command('DEL', index)
    laterMicros = 30_000_000
    await reservations.reserve(ledger('a'), 'e', 1, 10_000)
    await waitFor('the ledger to be shown again', shown)
  })

  test('calls that arrive together share runs of the script, and each gets the answer of its own', async t => {
    const { reservations } = await openShared(t)
    await redis.command('SET', '{t}l7', 'no number')
    const names = Array.from({ length: 200 }, (_, number) => `l${number % 100}`)
    const reserveAll = (amount: number) =>
      Promise.allSettled(
        names.map((name, number) =>
          reservations.reserve(ledger(name), `${amount}-${number}`, amount, 60_000),
        ),
      )
    // The first calls send the text of the script, and tell the index of the ledgers.
    await reserveAll(1)
    await redis.command('CONFIG', 'RESETSTAT')
    const outcomes = await reserveAll(5)
    const told = outcomes.map(each => {
      if (each.status === 'rejected') return String(each.reason)
      return `${each.value.reservation?.state}: ${each.value.limits[0]?.remaining}`
    })
    const problem = 'CountersError: ERR value is not an integer or out of range'
    const expected = names.map((name, number) => {
      if (name === 'l7') return problem
      return number < 100 ? 'open: 3' : 'undefined: 3'
    })
    assert.deepEqual(told, expected)
    const stats = await redis.command('INFO', 'commandstats')
    const runs = Number(/cmdstat_evalsha:calls=(\d+)/.exec(stats)?.[1])
    // A write has the calls of one turn, and at most 50.
    assert.ok(runs <= 8, `${runs} runs`)
    for (const name of ['l0', 'l1', 'l99']) {
      const { key } = ledger(name)
      for (const each of [key, `${key}:due`]) assert.notEqual(await redis.command('TTL', each), '-1', each)
    }
  })

  test('calls that a run leaves out because many reservations have ended are done by the next', async t => {
    const { reservations } = await openShared(t)
    const names = ['a', 'b', 'c']
    const entries = Array.from({ length: 700 }, (_, number) => `e${number}`)
    const of = (name: string): Ledger => ({
      ...ledger(name),
      checks: ledger(name).checks.map(check => ({ ...check, limit: 700, burst: 700 })),
    })
    await Promise.all(
      names.flatMap(name => entries.map(entry => reservations.reserve(of(name), entry, 1, 1_500))),
    )
    await waitFor('all to be due', async () => {
      const [, newest] = (
        await redis.command('ZREVRANGE', '{t}:reservations:c:due', '0', '0', 'WITHSCORES')
      ).split('\n')
      return Number(newest) < Date.now() * 1000
    })
    const outcomes = await Promise.all(names.map(name => reservations.reserve(of(name), 'new', 700, 60_000)))
    assert.deepEqual(
      outcomes.map(({ reservation }) => reservation?.state),
      ['open', 'open', 'open'],
    )
  })

  test('one sweep ends the reservations of all ledgers that are due', async t => {
    const { reservations } = await openShared(t)
    const names = Array.from({ length: 250 }, (_, number) => `l${number}`)
    await Promise.all(names.map(name => reservations.reserve(ledger(name), 'one', 4, 1)))
    await waitFor('all to be due', async () => {
      const [, newest] = (await redis.command('ZREVRANGE', index, '0', '0', 'WITHSCORES')).split('\n')
      return (
        Number(newest) < Date.now() * 1000 && Number(await redis.command('ZCARD', index)) === names.length
      )
    })
    assert.equal((await reservations.sweep('')).length, names.length)
    assert.equal(await redis.command('EXISTS', index), '0')
  })

  test('one sweep ends all reservations of a ledger that are due', async t => {
    let laterMicros = 0
    const { reservations } = await openShared(t, { timeMicros: () => Date.now() * 1000 + laterMicros })
    const of = (name: string): Ledger => {
      const [check] = ledger(name).checks
      return { ...ledger(name), checks: [{ ...(check as LimitCheck), limit: 10_000 }] }
    }
    const entries = Array.from({ length: 2_500 }, (_, number) => `e${number}`)
    await Promise.all(entries.map(entry => reservations.reserve(of('many'), entry, 2, 60_000)))
    assert.equal(await redis.command('GET', '{t}many'), '5000')
    laterMicros = 61_000_000
    // The index goes by the clock of Redis.
    await waitFor('the ledger to be shown', () => redis.command('ZSCORE', index, of('many').key))
    await redis.command('ZADD', index, '0', of('many').key)
    await reservations.sweep('')
    assert.equal(await redis.command('GET', '{t}many'), '0')
  })

  test('a ledger of which nothing is remembered leaves no key', async t => {
    let laterMicros = 0
    const timeMicros = () => Date.now() * 1000 + laterMicros
    const { reservations } = await openShared(t, { timeMicros })
    await reservations.reserve(ledger('a'), 'one', 4, 30_000)
    await reservations.change(ledger('a').key, 'one', { do: 'release' })
    await reservations.reserve(ledger('a'), 'two', 4, 30_000)
    laterMicros = 331_000_000
    const { reservation } = await reservations.change(ledger('a').key, 'two', { do: 'commit', actual: 1 })
    assert.equal(reservation, undefined)
    assert.equal(await redis.command('EXISTS', ledger('a').key, `${ledger('a').key}:due`), '0')
    assert.equal(await redis.command('GET', '{t}a'), '0')
  })

  test('the keys of a ledger expire after its limits, or after what it remembers when nothing is reserved', async t => {
    const { reservations } = await openShared(t)
    const { key } = ledger('a')
    const expiries = async () => [await redis.command('PTTL', key), await redis.command('PTTL', `${key}:due`)]
    await reservations.reserve(ledger('a'), 'one', 4, 60_000)
    for (const ms of await expiries()) assert.ok(Number(ms) > 3_599_000 && Number(ms) <= 3_900_000, ms)
    await reservations.change(key, 'one', { do: 'extend', ttlMs: 3_600_000 })
    for (const ms of await expiries()) assert.ok(Number(ms) > 4_199_000 && Number(ms) <= 4_500_000, ms)
    await reservations.change(key, 'one', { do: 'extend', ttlMs: 1 })
    await waitFor('a sweep', async () => {
      await reservations.sweep('')
      return Number((await expiries())[0]) <= 300_000
    })
    for (const ms of await expiries()) assert.ok(Number(ms) > 290_000 && Number(ms) <= 300_000, ms)
    const huge = {
      algorithm: 'TokenBucket',
      limit: 1,
      burst: 1_000_000_000,
      windowTicks: 31_536_000,
    } as const
    const checks = ledger('b').checks.map(check => ({ ...check, ...huge }))
    const { reservation } = await reservations.reserve({ ...ledger('b'), checks }, 'one', 4, 60_000)
    assert.equal(reservation?.state, 'open')
  })

  stopWhenOverContract('Redis', async t => {
    await redis.command('FLUSHALL')
    const options = { url: redis.socketPath, stopWhenOver: true }
    return { counters: await openRedis(t, options), peer: await openRedis(t, options) }
  })

  /** Opens counters for tests that leave the server in its initial state. */
  async function openShared(t: TestContext, options: Partial<TestedOptions> = {}): Promise<RedisCounters> {
    await redis.command('FLUSHALL')
    const counters = await openRedis(t, { url: redis.url, ...options })
    t.after(() => counters.close())
    return counters
  }

  async function assertExpiry(key: string): Promise<void> {
    await waitFor(`${key} to have an expiry`, async () => Number(await redis.command('TTL', key)) > 0)
  }

  test('every key gets its expiry in the same write', async t => {
    const counters = await openShared(t)
    await counters.add([hit('a'), hit('b', 2, 1_000), hit('b', 1, 2_000)])
    assert.match(await redis.command('TTL', 'a'), /^(59|60)$/)
    assert.match(await redis.command('TTL', 'b'), /^(1999|2000)$/)
  })

  test('a key that is new only to Redis gets its expiry again', async t => {
    const counters = await openShared(t)
    await counters.add([hit('a'), hit('b')])
    await redis.command('FLUSHALL')
    assert.deepEqual(await counters.add([hit('a', 5), hit('b', maxCount), hit('b', 2)]), [
      5,
      maxCount,
      maxCount,
    ])
    await assertExpiry('a')
    await assertExpiry('b')
  })

  test('keys with the same hash have separate counts and expiries', async t => {
    await redis.command('FLUSHALL')
    const connection = await connected(t, { endpoint: { path: redis.socketPath } })
    const oneHash = { low: 1, high: 1, of() {} }
    const send = sendSums(
      createIncrementSender(connection, () => {}),
      new TouchedKeys(100, oneHash),
    )
    const keys = ['a', 'b', 'c', 'a']
    for (const round of [1, 2]) {
      const values = await new Promise(resolve => {
        const calls = keys.map(key => ({ batch: [hit(key)] }))
        send(calls, answerOf => resolve(calls.map((_, index) => answerOf(index, index))))
      })
      assert.deepEqual(values, [[2 * round - 1], [round], [round], [2 * round]])
    }
    for (const key of keys) await assertExpiry(key)
  })

  test('the expiry is sent only with the first touch, and again after the key was forgotten', async t => {
    const counters = await openShared(t, { maxTouchedKeys: 4 })
    await counters.add([hit('a')])
    await redis.command('PERSIST', 'a')
    await counters.add([hit('a')])
    assert.equal(await redis.command('TTL', 'a'), '-1')
    for (const key of ['b', 'c', 'd', 'e', 'f']) await counters.add([hit(key)])
    await counters.add([hit('a')])
    await assertExpiry('a')
  })

  for (const stopWhenOver of [false, true]) {
    test(`a longer unit sends the expiry again, and jitter does not; scripts: ${stopWhenOver}`, async t => {
      const counters = await openShared(t, { stopWhenOver })
      const add = (expirySeconds: number, jitterSeconds: number) =>
        counters.add([{ ...hit('a', 1, expirySeconds), jitterSeconds }])
      await add(60, 5)
      assert.match(await redis.command('TTL', 'a'), /^6[45]$/)
      await redis.command('PERSIST', 'a')
      await add(60, 300)
      assert.equal(await redis.command('TTL', 'a'), '-1')
      await add(3_600, 7)
      assert.match(await redis.command('TTL', 'a'), /^360[67]$/)
      await redis.command('PERSIST', 'a')
      await add(60, 0)
      await add(3_600, 300)
      assert.equal(await redis.command('TTL', 'a'), '-1')
    })
  }

  test('adding 0 neither creates a key nor prolongs one', async t => {
    const counters = await openShared(t)
    assert.deepEqual(await counters.add([hit('a', 0)]), [0])
    assert.equal(await redis.command('EXISTS', 'a'), '0')
    await counters.add([hit('a', 1, 60)])
    await counters.add([hit('a', 0, 1_000)])
    assert.match(await redis.command('TTL', 'a'), /^(59|60)$/)
  })

  test('values below 2^53-1 stay exact after a counter was beyond it', async t => {
    const counters = await openShared(t)
    await redis.command('SET', 'a', String(maxCount - 2))
    await redis.command('SET', 'full', String(2n ** 63n - 1n))
    const values = await counters.add([hit('a', 1), hit('full', 1), hit('a', 1), hit('a', 8), hit('b', 1)])
    assert.deepEqual(values, [maxCount - 1, maxCount, maxCount, maxCount, 1])
    assert.deepEqual(await counters.add([hit('a', 0), hit('full', 0)]), [maxCount, maxCount])
    assert.equal(await redis.command('GET', 'a'), String(BigInt(maxCount) + 8n))
  })

  test('an error of one key does not affect the other keys', async t => {
    const counters = await openShared(t)
    await redis.command('RPUSH', 'list', 'x')
    await redis.command('SET', 'word', 'x')
    const good = counters.add([hit('a')])
    const [list, word, looked] = [hit('list'), hit('word'), hit('word', 0)].map(each => counters.add([each]))
    assert.match(await problemOf(list ?? good), /^WRONGTYPE /)
    assert.match(await problemOf(word ?? good), /^ERR value is not an integer/)
    assert.match(await problemOf(looked ?? good), /not a whole number|not an integer/)
    assert.deepEqual(await good, [1])
  })

  test('temporary errors of Redis are reported with its text and do not end the connection', async t => {
    const counters = await openShared(t)
    await redis.command('REPLICAOF', '127.0.0.1', '1')
    assert.match(await problemOf(counters.add([hit('a')])), /^READONLY /)
    assert.deepEqual(await counters.add([hit('a', 0)]), [0])
    await redis.command('REPLICAOF', 'NO', 'ONE')
    await redis.command('CONFIG', 'SET', 'maxmemory', '1')
    assert.match(await problemOf(counters.add([hit('a')])), /^OOM /)
    await redis.command('CONFIG', 'SET', 'maxmemory', '0')
    assert.deepEqual(await counters.add([hit('a')]), [1])
    await assertExpiry('a')
    assert.equal(counters.healthy, true)
  })

  test('a warning is logged only when Redis may evict counters', async t => {
    const warnings: string[] = []
    const inspected = async () =>
      (await redis.command('INFO', 'commandstats')).includes('cmdstat_info:calls=2')
    await redis.command('CONFIG', 'RESETSTAT')
    await redis.command('INFO')
    await openShared(t, { onWarning: (_, { reason }) => warnings.push(`${reason}`) })
    await waitFor('the settings to be looked at', inspected)
    await redis.command('CONFIG', 'SET', 'maxmemory-policy', 'allkeys-lru', 'maxmemory', '100mb')
    t.after(() => redis.command('CONFIG', 'SET', 'maxmemory-policy', 'noeviction', 'maxmemory', '0'))
    await openShared(t, { onWarning: (_, { reason }) => warnings.push(`${reason}`) })
    await waitFor('the warning', () => warnings.length > 0)
    assert.equal(warnings.length, 1)
    assert.match(warnings[0] ?? '', /maxmemory-policy allkeys-lru/)
  })

  test('scripts: every key gets its expiry, and adding 0 creates none', async t => {
    const counters = await openShared(t, { stopWhenOver: true })
    assert.deepEqual(await counters.add([hit('a'), hit('b', 2, 1_000), hit('c', 0)]), [1, 2, 0])
    assert.match(await redis.command('TTL', 'a'), /^(59|60)$/)
    assert.match(await redis.command('TTL', 'b'), /^(999|1000)$/)
    assert.equal(await redis.command('EXISTS', 'c'), '0')
  })

  test('scripts: invalid values and failed writes are errors that affect no other keys', async t => {
    const counters = await openShared(t, { stopWhenOver: true })
    await redis.command('SET', 'word', 'x')
    const good = counters.add([hit('a')])
    assert.match(await problemOf(counters.add([hit('a'), hit('word')])), /^ERR value is not an integer/)
    assert.deepEqual(await good, [1])
    assert.deepEqual(await counters.add([hit('a')]), [2])
  })

  test('scripts that Redis does not have any more are sent again and count once', async t => {
    const counters = await openShared(t, { stopWhenOver: true })
    const load = startLoad(t, counters)
    for (let flush = 0; flush < 10; flush += 1) {
      const answeredBefore = load.values.length
      await redis.command('SCRIPT', 'FLUSH')
      await waitFor('answers', () => load.values.length > answeredBefore + 100)
    }
    await load.stop()
    assert.deepEqual(load.failures, [])
    assert.equal(new Set(load.values).size, load.values.length)
    assert.equal(await redis.command('GET', 'load'), String(load.values.length))
  })

  test('eight processes admit exactly the limit', async t => {
    const limit = 1_000
    const processes = await Promise.all(Array.from({ length: 8 }, () => openShared(t)))
    let admitted = 0
    async function work(counters: RedisCounters): Promise<void> {
      for (let round = 0; round < 50; round += 1) {
        const [value = 0] = await counters.add([hit('one')])
        if (value <= limit) admitted += 1
      }
    }
    await Promise.all(processes.flatMap(counters => Array.from({ length: 5 }, () => work(counters))))
    assert.equal(admitted, limit)
  })

  test('connections are counted in the statistics', async t => {
    const stats = createStats()
    await openShared(t, { stats })
    const read = (name: string) =>
      stats.entries().find(entry => entry.name === `ratelimit.redis_pool.${name}`)?.value ?? 0
    const counts = () => [read('cx_active'), read('cx_total'), read('cx_local_close')].join(' ')
    assert.equal(counts(), '1 1 0')
    await redis.command('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')
    await waitFor('the next connection', () => counts() === '1 2 1')
  })

  test('aborted connections lose no value and count nothing twice', async t => {
    const counters = await openShared(t)
    const load = startLoad(t, counters)
    for (let cut = 0; cut < 5; cut += 1) {
      const answeredBefore = load.values.length
      await waitFor('answers', () => load.values.length > answeredBefore + 200)
      await redis.command('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')
    }
    await load.stop()
    const total = Number(await redis.command('GET', 'load'))
    assert.equal(new Set(load.values).size, load.values.length, 'a value was returned twice')
    assert.ok(total >= load.values.length, `${total} were counted, ${load.values.length} were answered`)
    const most = load.values.length + load.failures.length
    assert.ok(total <= most, `${total} were counted, at most ${most} were sent`)
    await waitFor('Redis to answer', () => counters.healthy)
  })
})

describe('failures of Redis', { skip }, () => {
  test('Redis is killed and restarts: calls fail at once, then count from 0, nothing twice', async t => {
    const redis = await startRedis()
    t.after(() => redis.stop())
    const counters = await openRedis(t, { url: redis.socketPath })
    t.after(() => counters.close())
    const health: boolean[] = []
    counters.onHealth(healthy => health.push(healthy))
    const before = startLoad(t, counters)
    await waitFor('answers', () => before.values.length > 500)
    await redis.kill('SIGKILL')
    await waitFor('the loss to be noticed', () => !counters.healthy)
    await before.stop()
    assert.match(await problemOf(counters.add([hit('load')])), /lost|ENOENT|ECONNREFUSED|ECONNRESET|EPIPE/)

    await redis.restart()
    const afterwards = startLoad(t, counters)
    await waitFor('answers', () => afterwards.values.length > 500)
    await afterwards.stop()
    assert.deepEqual(
      afterwards.values.toSorted((a, b) => a - b),
      afterwards.values.map((_, index) => index + 1),
    )
    assert.equal(await redis.command('GET', 'load'), String(afterwards.values.length))
    assert.ok(Number(await redis.command('TTL', 'load')) > 0)
    assert.deepEqual(health, [false, true])
  })

  test('Redis hangs: calls are rejected at their deadline, and counted again when it continues', async t => {
    const redis = await startRedis()
    t.after(() => redis.stop())
    const counters = await openRedis(t, { url: redis.url, deadlineMs: 150, stallTimeoutMs: 60_000 })
    t.after(() => counters.close())
    await redis.kill('SIGSTOP')
    const startMs = performance.now()
    const problems = await Promise.all(Array.from({ length: 6 }, () => problemOf(counters.add([hit('a')]))))
    for (const problem of problems) assert.match(problem, /did not answer within 150 ms/)
    assert.ok(performance.now() - startMs >= 148)
    await redis.kill('SIGCONT')
    const [value] = await waitFor('an answer', () => counters.add([hit('a')]))
    assert.ok(value !== undefined && value > 5, `the counter is ${value}`)
  })

  test('Redis hangs longer: the connection is closed, and calls fail at once', async t => {
    const redis = await startRedis()
    t.after(() => redis.stop())
    const counters = await openRedis(t, { url: redis.url, deadlineMs: 15, stallTimeoutMs: 100 })
    t.after(() => counters.close())
    await redis.kill('SIGSTOP')
    await problemOf(counters.add([hit('a')]))
    await waitFor('the connection to be given up', () => !counters.healthy)
    assert.doesNotMatch(await problemOf(counters.add([hit('a')])), /did not answer within/)
    await redis.kill('SIGCONT')
    await waitFor('Redis to answer', () => counters.healthy)
    await waitFor('an answer', () => counters.add([hit('a')]))
  })

  test('unanswered hits are bounded', async t => {
    const redis = await startRedis()
    t.after(() => redis.stop())
    const counters = await openRedis(t, { url: redis.url, deadlineMs: 15, maxHitsInFlight: 10 })
    t.after(() => counters.close())
    await redis.kill('SIGSTOP')
    const calls = Array.from({ length: 11 }, () => problemOf(counters.add([hit('a')])))
    assert.match(await (calls.pop() ?? ''), /too many hits in flight: 10 and 1 more; the limit is 10/)
    await Promise.all(calls)
  })

  test('Redis is loading its data: unhealthy, and calls get its error', async t => {
    const redis = await startRedis(['--enable-debug-command', 'yes'])
    t.after(() => redis.stop())
    await redis.command('DEBUG', 'POPULATE', '20000', 'key', '100')
    const counters = await openRedis(t, { url: redis.socketPath, stallTimeoutMs: 60_000 })
    t.after(() => counters.close())
    // Loading takes 1 ms for each key until the test ends it, and Redis handles events in between.
    await redis.command(
      'CONFIG',
      'SET',
      'loading-process-events-interval-bytes',
      '1024',
      'key-load-delay',
      '1000',
    )
    const reloaded = redis.command('DEBUG', 'RELOAD').catch(() => '')
    await waitFor('an answer about loading', async () => {
      const text = await counters.add([hit('a')]).then(
        () => '',
        error => error.message,
      )
      return text.startsWith('LOADING ')
    })
    await redis.command('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes').catch(() => '')
    await waitFor('calls to be rejected while it loads', async () => {
      if (counters.healthy) return false
      return /^LOADING /.test(await problemOf(counters.add([hit('a')])))
    })
    await redis.command('CONFIG', 'SET', 'key-load-delay', '0')
    await reloaded
    await waitFor('Redis to answer', () => counters.healthy)
    await waitFor('an answer', () => counters.add([hit('a')]))
  })

  test('Redis is not running: calls are rejected with the reason, and close works', async () => {
    const counters = createRedisCounters({ url: '/nonexistent/redis.sock', random: Math.random })
    await waitFor('the first try', async () => /ENOENT/.test(await problemOf(counters.add([hit('a')]))))
    assert.equal(counters.healthy, false)
    await counters.close()
    assert.equal(await problemOf(counters.add([hit('a')])), 'the counters are closed')
    const closedAtOnce = createRedisCounters({ url: '127.0.0.1:1', random: Math.random })
    await closedAtOnce.close()
    await closedAtOnce.close()
  })
})

describe('Redis with a password', { skip }, () => {
  const password = 'hunter2:with:colons'
  let redis: RedisServer
  before(async () => {
    redis = await startRedis()
    await redis.command('ACL', 'SETUSER', 'tollway', 'on', `>${password}`, '~*', '+@all')
    await redis.command('ACL', 'SETUSER', 'default', 'resetpass', '>plain')
  })
  after(() => redis.stop())

  const encoded = encodeURIComponent(password)
  const accepted: readonly [string, (redis: RedisServer) => { url: string; auth?: string }][] = [
    ['the password alone', ({ socketPath }) => ({ url: socketPath, auth: 'plain' })],
    ['user:password', ({ socketPath }) => ({ url: socketPath, auth: `tollway:${password}` })],
    ['a URL', ({ port }) => ({ url: `redis://tollway:${encoded}@127.0.0.1:${port}/3` })],
    ['a URL without a user', ({ port }) => ({ url: `redis://:plain@127.0.0.1:${port}` })],
    ['both, of which auth counts', ({ port }) => ({ url: `redis://x:y@127.0.0.1:${port}`, auth: 'plain' })],
  ]
  for (const [name, address] of accepted) {
    test(`it accepts ${name}`, async t => {
      const counters = await openRedis(t, address(redis))
      t.after(() => counters.close())
      assert.deepEqual(await counters.add([hit(name)]), [1])
    })
  }

  const rejected: readonly [string, RegExp, (redis: RedisServer) => { url: string; auth?: string }][] = [
    ['no password', /^NOAUTH /, ({ port }) => ({ url: `127.0.0.1:${port}` })],
    ['a wrong one', /^WRONGPASS /, ({ port }) => ({ url: `redis://tollway:hunter3@127.0.0.1:${port}` })],
    [
      'a database that is not there',
      /^ERR DB /,
      ({ port }) => ({ url: `redis://:plain@127.0.0.1:${port}/99` }),
    ],
  ]
  for (const [name, words, address] of rejected) {
    test(`with ${name}, calls get the error of Redis without the password`, async t => {
      const counters = createRedisCounters({ ...address(redis), random: Math.random })
      t.after(() => counters.close())
      await waitFor('the rejection', async () => words.test(await problemOf(counters.add([hit('a')]))))
      assert.doesNotMatch(await problemOf(counters.add([hit('a')])), /hunter|plain/)
      assert.equal(counters.healthy, false)
    })
  }
})

describe('reservations in a Redis whose clock steps', { skip: skip || missingProgram('cc') }, () => {
  let redis: SteppedRedis
  before(async () => {
    redis = await startSteppedRedis(['--repl-diskless-sync-delay', '0'])
  })
  after(() => redis.stop())

  const algorithms = ['FixedWindow', 'SlidingWindow', 'TokenBucket', 'Concurrency'] as const
  const lease = 120
  const ledgers = algorithms.map((algorithm): Ledger => {
    const limit = { key: `{t}${algorithm}`, algorithm, hits: 0, limit: 10, burst: 10, ticksPerSecond: 1 }
    const windowTicks = algorithm === 'Concurrency' ? lease : 86_400
    const check = { ...limit, windowTicks, expirySeconds: 86_400, shadow: false, countRejected: false }
    return { key: `{t}:reservations:${algorithm}`, checks: [check] }
  })

  /**
   * Sets the clock of Redis to a time of the next day, and reserves 4 of 10 for a minute in each ledger. The
   * other functions use another process.
   */
  async function reserve(t: TestContext, timeOfDay: string) {
    await redis.command('FLUSHALL')
    const day = 86_400
    const [hours = 0, minutes = 0] = timeOfDay.split(':').map(Number)
    const nowSeconds = Date.now() / 1000
    const startSeconds = Math.ceil(nowSeconds / day) * day + hours * 3_600 + minutes * 60
    const setClock = (afterSeconds: number) =>
      redis.setClock(Math.round(startSeconds + afterSeconds - nowSeconds))
    setClock(0)
    const counters = await openRedis(t, { url: redis.url })
    t.after(() => counters.close())
    for (const ledger of ledgers) await counters.reservations.reserve(ledger, 'one', 4, 60_000)
    return { setClock, ...(await openPeer(t, redis.url)) }
  }

  clockStepsContract('Redis', async t => {
    await redis.command('FLUSHALL')
    const midnight = (Math.ceil(Date.now() / 86_400_000) - Date.now() / 86_400_000) * 86_400
    const counters = await openRedis(t, { url: redis.url })
    t.after(() => counters.close())
    return { counters, setTime: seconds => redis.setClock(Math.round(midnight + seconds)) }
  })

  async function openPeer(t: TestContext, url: string) {
    const peer = await openRedis(t, { url })
    t.after(() => peer.close())
    return {
      peer,
      async remaining() {
        await peer.reservations.sweep('')
        const outcomes = await Promise.all(ledgers.map(({ checks }) => peer.admit(checks)))
        return outcomes.map(([outcome]) => outcome?.remaining)
      },
      async change(change: ReservationChange) {
        const outcomes = await Promise.all(
          ledgers.map(({ key }) => peer.reservations.change(key, 'one', change)),
        )
        return [...new Set(outcomes.map(({ reservation }) => reservation?.state ?? 'unknown'))].join()
      },
    }
  }

  test('a step back prolongs reservations by no more than the step, and holds until the next call', async t => {
    const { setClock, remaining, change, peer } = await reserve(t, '12:00')
    setClock(-600)
    assert.deepEqual(await remaining(), [6, 6, 6, 6])
    const [, , , holds] = ledgers
    const [more] = await peer.admit(holds?.checks.map(check => ({ ...check, hits: 7 })) ?? [])
    assert.equal(more?.admitted, false)
    setClock(-600 + 61)
    assert.deepEqual(await remaining(), [6, 6, 6, 10])
    setClock(59)
    assert.equal(await change({ do: 'look' }), 'open')
    assert.deepEqual(await remaining(), [6, 6, 6, 10])
    setClock(61)
    assert.deepEqual(await remaining(), [10, 10, 10, 10])
    assert.equal(await change({ do: 'look' }), 'expired')
  })

  for (const [name, timeOfDay, seconds] of [
    ['back', '12:00', [-600]],
    ['back to the window before', '00:05', [-600]],
    ['forward before they expire, and back', '12:00', [30, -600]],
    ['forward until they expire, and back', '12:00', [180, 0]],
  ] as const) {
    test(`a commit after a step ${name} counts what was used, once`, async t => {
      const { setClock, remaining, change } = await reserve(t, timeOfDay)
      for (const ahead of seconds) {
        setClock(ahead)
        await remaining()
      }
      assert.equal(await change({ do: 'commit', actual: 3 }), 'committed')
      for (const ahead of [seconds.at(-1) ?? 0, -120, 120]) {
        setClock(ahead)
        await change({ do: 'commit', actual: 3 })
        assert.deepEqual(await remaining(), [7, 7, 7, 10])
      }
    })
  }

  for (const seconds of [400, 1_500]) {
    test(`a step of ${seconds} s forward releases reservations, which are forgotten then, once`, async t => {
      const { setClock, remaining, change } = await reserve(t, '12:00')
      setClock(seconds)
      assert.deepEqual(await remaining(), [10, 10, 10, 10])
      for (const ahead of [seconds, 0]) {
        setClock(ahead)
        assert.equal(await change({ do: 'commit', actual: 3 }), 'unknown')
        assert.deepEqual(await remaining(), [10, 10, 10, 10])
      }
    })
  }

  for (const [ahead, state, remains] of [
    [-600, 'committed', [7, 7, 7, 10]],
    [120, 'committed', [7, 7, 7, 10]],
    [1_500, 'unknown', [10, 10, 10, 10]],
  ] as const) {
    test(`a replica whose clock is ${ahead} s ahead takes over: a commit counts once or not at all`, async t => {
      await reserve(t, '12:00')
      const replica = await startSteppedRedis()
      t.after(() => replica.stop())
      const [masterSeconds] = (await redis.command('TIME')).split('\n')
      replica.setClock(Math.round(Number(masterSeconds) - Date.now() / 1000) + ahead)
      await replica.command('REPLICAOF', '127.0.0.1', `${redis.port}`)
      await waitFor('the replication', async () => (await redis.command('WAIT', '1', '100')) === '1')
      await replica.command('REPLICAOF', 'NO', 'ONE')
      const { change, remaining } = await openPeer(t, replica.url)
      for (let times = 0; times < 2; times++) {
        assert.equal(await change({ do: 'commit', actual: 3 }), state)
        assert.deepEqual(await remaining(), remains)
      }
    })
  }
})
