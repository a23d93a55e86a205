import assert from 'node:assert/strict'
import { after, before, describe, type TestContext, test } from 'node:test'
import { makeCertificate } from '../../../../../test/support/certificate.ts'
import {
  type ClusterServer,
  type RedisCluster,
  startRedisCluster,
} from '../../../../../test/support/redis-cluster.ts'
import { missingProgram } from '../../../../../test/support/require-server.ts'
import { temporaryFolder } from '../../../../../test/support/temporary-folder.ts'
import { waitFor } from '../../../../../test/support/wait-for.ts'
import { createStats } from '../../../stats/stats.ts'
import { countersContract } from '../../testing/counters.contract.ts'
import {
  hit,
  type Load,
  openRedis,
  problemOf,
  startLoad,
  type TestedOptions,
} from '../../testing/open-redis-counters.ts'
import { reservationsContract } from '../../testing/reservations.contract.ts'
import { stopWhenOverContract } from '../../testing/stop-when-over.contract.ts'
import { createRedisCounters } from '../redis.ts'
import type { RedisCounters } from '../redis-setup.ts'
import { findHashSlot } from './hash-slot.ts'

const skip = missingProgram('redis-server')

/** For each master, a key in one of its slots. */
const spread = ['{b}', '{c}', '{a}']

describe('counters in a Redis Cluster', { skip }, () => {
  let cluster: RedisCluster
  /** A fourth master, which has no slots between the tests. */
  let fresh: ClusterServer | undefined
  before(async () => {
    cluster = await startRedisCluster({ replicasPerMaster: 1 })
  })
  after(() => cluster?.stop())

  async function open(t: TestContext, options: Partial<TestedOptions> = {}): Promise<RedisCounters> {
    return openRedis(t, { type: 'cluster', url: cluster.url, clusterRefreshMs: 100, ...options })
  }

  async function openBoth(t: TestContext, options: Partial<TestedOptions> = {}) {
    await cluster.onMasters('FLUSHALL')
    return { counters: await open(t, options), peer: await open(t, options) }
  }

  async function openShared(t: TestContext, options: Partial<TestedOptions> = {}): Promise<RedisCounters> {
    await cluster.onMasters('FLUSHALL')
    const counters = await open(t, options)
    t.after(() => counters.close())
    return counters
  }

  /** `connections` returns the number of open connections that carry counters. */
  async function openCounted(t: TestContext) {
    const stats = createStats()
    const counters = await openShared(t, { stats })
    const connections = () =>
      stats.entries().find(({ name }) => name === 'ratelimit.redis_pool.cx_active')?.value
    return { counters, connections }
  }

  countersContract('Redis Cluster', openBoth)
  reservationsContract('Redis Cluster', async t => {
    const { counters, peer } = await openBoth(t)
    t.after(() => Promise.all([counters.close(), peer?.close()]))
    return { counters, peer }
  })
  stopWhenOverContract('Redis Cluster', t => openBoth(t, { stopWhenOver: true }))

  test('each master has one connection, and a batch is divided among the masters', async t => {
    const { counters, connections } = await openCounted(t)
    assert.equal(connections(), 3)
    const batch = [...spread, ...spread].map(key => hit(key))
    assert.deepEqual(await counters.add(batch), [1, 1, 1, 2, 2, 2])
    assert.deepEqual(await cluster.onMasters('DBSIZE'), ['1', '1', '1'])
  })

  test('stopping at the limit takes two steps over several slots', async t => {
    const counters = await openShared(t, { stopWhenOver: true })
    const batch = [hit('{a}', 1, 60, 1), hit('{b}', 1, 60, 9)]
    assert.deepEqual(await counters.add(batch), [1, 1])
    assert.deepEqual(await counters.add(batch), [2, 1])
    assert.deepEqual(await counters.add(batch), [3, 1])
  })

  /**
   * Checks that no hit was lost or added twice by a load whose calls added 1 to `{load}` and 1 to another key
   * of that slot.
   */
  async function assertExact(counters: RedisCounters, load: Load, otherKeys: number): Promise<void> {
    assert.deepEqual(
      load.failures.filter(text => !text.startsWith('TRYAGAIN')),
      [],
    )
    assert.equal(new Set(load.values).size, load.values.length, 'a value was returned twice')
    const looks = Array.from({ length: otherKeys }, (_, index) => hit(`{load}${index}`, 0))
    const [total = 0, ...others] = await counters.add([hit('{load}', 0), ...looks])
    assert.equal(total, load.values.length)
    assert.equal(
      others.reduce((sum, value) => sum + value, 0),
      load.values.length,
    )
  }

  async function assertMovesExactly(t: TestContext, options: Partial<TestedOptions> = {}): Promise<void> {
    // The slots are refreshed only because of MOVED.
    const counters = await openShared(t, { clusterRefreshMs: 60_000, ...options })
    const load = startLoad(t, counters, call => [hit('{load}'), hit(`{load}${call % 50}`)])
    const [, second, third] = cluster.masters
    assert.ok(second && third)
    fresh ??= await cluster.addMaster()
    const slot = findHashSlot('{load}')
    const answers = async () => {
      const answered = load.values.length
      const failed = load.failures.length
      await waitFor(
        'answers',
        () => load.values.length > answered + 200 || load.failures.length > failed + 200,
      )
    }
    for (const [from, to] of [
      [third, second],
      [second, fresh],
      [fresh, third],
    ] as const) {
      await answers()
      await cluster.moveSlot(slot, from, to, answers)
    }
    await answers()
    await load.stop()
    await assertExact(counters, load, 50)
    for (const key of ['{load}', '{load}0']) {
      assert.ok(Number(await third.command('TTL', key)) > 0, `${key} has no expiry`)
    }
  }

  test('a slot that migrates under load, also to a new node, loses nothing and counts nothing twice', t =>
    assertMovesExactly(t))

  test('the same with scripts, except for those that Redis rejects while their keys migrate', t =>
    assertMovesExactly(t, { stopWhenOver: true }))

  test('a node without slots is disconnected', async t => {
    const { counters, connections } = await openCounted(t)
    fresh ??= await cluster.addMaster()
    const [first] = cluster.masters
    assert.ok(first)
    const slot = findHashSlot(spread[0] ?? '')
    await cluster.moveSlot(slot, first, fresh)
    await waitFor('the new node', () => connections() === 4)
    assert.deepEqual(await counters.add([hit(spread[0] ?? '')]), [1])
    await cluster.moveSlot(slot, fresh, first)
    await waitFor('it to be left', () => connections() === 3)
    assert.deepEqual(await counters.add([hit(spread[0] ?? '')]), [2])
  })

  test('eight processes admit exactly the limit', async t => {
    const limit = 300
    await cluster.onMasters('FLUSHALL')
    const processes = await Promise.all(Array.from({ length: 8 }, () => open(t)))
    t.after(() => Promise.all(processes.map(counters => counters.close())))
    let admitted = 0
    async function work(counters: RedisCounters): Promise<void> {
      for (let round = 0; round < 20; round += 1) {
        const [value = 0] = await counters.add([hit('one'), ...spread.map(key => hit(key))])
        if (value <= limit) admitted += 1
      }
    }
    await Promise.all(processes.flatMap(counters => [work(counters), work(counters), work(counters)]))
    assert.equal(admitted, limit)
  })

  test('nodes that are reported by name or without an address are found', async t => {
    t.after(() => cluster.onMasters('CONFIG', 'SET', 'cluster-preferred-endpoint-type', 'ip'))
    await cluster.onMasters('CONFIG', 'SET', 'cluster-preferred-endpoint-type', 'unknown-endpoint')
    assert.equal((await openCounted(t)).connections(), 3)
    await cluster.onMasters('CONFIG', 'SET', 'cluster-announce-hostname', 'localhost')
    await cluster.onMasters('CONFIG', 'SET', 'cluster-preferred-endpoint-type', 'hostname')
    assert.equal((await openCounted(t)).connections(), 3)
  })

  test('flushed counters count from 0, with their expiry', async t => {
    const counters = await openShared(t)
    await counters.add(spread.map(key => hit(key)))
    await cluster.onMasters('FLUSHALL')
    assert.deepEqual(await counters.add(spread.map(key => hit(key))), [1, 1, 1])
    const [master] = cluster.masters
    await waitFor('the expiry', async () => Number(await master?.command('TTL', spread[0] ?? '')) > 0)
  })

  // This test is the last one, since it changes the cluster.
  test('the loss of a master does not affect other slots, and its replica takes over', async t => {
    const counters = await openShared(t)
    const [key = '', otherKey = ''] = spread
    assert.deepEqual(await counters.add([hit(key), hit(otherKey)]), [1, 1])
    const health: boolean[] = []
    counters.onHealth(healthy => health.push(healthy))
    await cluster.failQuickly()
    await cluster.masters[0]?.kill('SIGKILL')
    await waitFor('the loss to be noticed', () => !counters.healthy)
    assert.match(counters.problem, /^127\.0\.0\.1:\d+: /)
    // A batch with a key of the lost master counts nothing on any master.
    assert.notEqual(await problemOf(counters.add([hit(otherKey), hit(key)])), '')
    assert.deepEqual(await counters.add([hit(otherKey)]), [2])
    await waitFor('the replica to take over', () => counters.healthy)
    assert.deepEqual(health, [false, true])
    const [value = 0] = await counters.add([hit(key)])
    assert.ok(value === 1 || value === 2, `the counter is ${value}`)
    const load = startLoad(t, counters, () => [hit(key)])
    await waitFor('answers', () => load.values.length > 100)
    await load.stop()
    assert.deepEqual(load.failures, [])
    assert.equal(Math.max(...load.values), value + load.values.length)
  })
})

describe('a Redis Cluster with TLS and users', { skip: skip || missingProgram('openssl') }, () => {
  let folder = ''

  test('each connection sends its certificate and its password', async t => {
    folder = temporaryFolder('tollway-cluster')
    const certificate = await makeCertificate(folder, 'redis', 'IP:127.0.0.1')
    const cluster = await startRedisCluster({ certificate })
    t.after(() => cluster.stop())
    const rights = ['~*', '+@all', '-flushall']
    await cluster.onMasters('ACL', 'SETUSER', 'tollway', 'on', '>pass:word', ...rights)
    const { cert, key } = certificate
    const options = { type: 'CLUSTER', url: cluster.url, tls: { ca: cert, cert, key } }
    const counters = await openRedis(t, { ...options, auth: 'tollway:pass:word' })
    t.after(() => counters.close())
    assert.deepEqual(await counters.add(spread.map(each => hit(each))), [1, 1, 1])
    const clients = await cluster.onMasters('CLIENT', 'LIST', 'TYPE', 'normal')
    for (const list of clients) assert.match(list, /user=tollway/)

    const rejected = createRedisCounters({ ...options, auth: 'tollway:hunter2', random: Math.random })
    t.after(() => rejected.close())
    await waitFor('the rejection', () => rejected.problem.includes('WRONGPASS'))
    assert.doesNotMatch(await problemOf(rejected.add([hit('a')])), /hunter2/)
  })
})
