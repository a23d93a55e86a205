import assert from 'node:assert/strict'
import { describe, type TestContext, test } from 'node:test'
import type { LogFields } from '@tollway/chassis/log/log.ts'
import { startMemcached } from '../../../../test/support/memcached-server.ts'
import { startRedisCluster } from '../../../../test/support/redis-cluster.ts'
import { type RedisServer, startRedis } from '../../../../test/support/redis-server.ts'
import { missingProgram } from '../../../../test/support/require-server.ts'
import { waitFor } from '../../../../test/support/wait-for.ts'
import { createStats } from '../../stats/stats.ts'
import type { Counters } from '../counters.ts'
import { MemcachedCounters } from '../memcached/memcached.ts'
import { pickServer } from '../memcached/server-list.ts'
import { PerSecondCounters } from '../per-second-backend.ts'
import { createRedisCounters } from '../redis/redis.ts'
import { hit } from '../testing/open-redis-counters.ts'
import { breakerSilenceMs, createBreakers } from './circuit-breaker.ts'

const skip = missingProgram('redis-server')

test('the silence is at least 100 ms, and at least the deadline of a call', () => {
  assert.deepEqual([1, 15, 100, 101, 5_000].map(breakerSilenceMs), [100, 100, 100, 101, 5_000])
})

test('breakers of one pool share their statistics, and each opening and closing is one line', () => {
  const stats = createStats()
  const lines: string[] = []
  const create = createBreakers({
    stats,
    prefix: 'pool',
    onWarning: (message, { server, reason }) => lines.push(`${message} ${server}: ${reason}`),
  })
  const shown = () => stats.entries().map(({ name, value }) => `${name} ${value}`)
  const [one, other] = [create('Redis a:1'), create('Redis b:2')]
  one.close('never opened')
  one.open('silent')
  other.open('silent')
  one.close('Redis answers again')
  one.close('closed already')
  assert.deepEqual(shown(), ['pool.breaker_open 1', 'pool.breaker_opened 2'])
  assert.deepEqual(lines, [
    'open circuit breaker Redis a:1: silent',
    'open circuit breaker Redis b:2: silent',
    'close circuit breaker Redis a:1: Redis answers again',
  ])
})

/**
 * A short deadline, so that the breaker opens soon, and a connection that outlasts the stalls of the test.
 */
const brief = { deadlineMs: 50, stallTimeoutMs: 20_000, random: Math.random }

function watched(prefix: string) {
  const stats = createStats()
  const lines: string[] = []
  const read = (name: string) => stats.entries().find(entry => entry.name === `${prefix}.${name}`)?.value
  return {
    options: {
      stats,
      onWarning: (message: string, { server, reason }: LogFields) =>
        void lines.push(`${message} ${server}: ${reason}`),
    },
    lines,
    openNow: () => read('breaker_open'),
    opened: () => read('breaker_opened') ?? 0,
  }
}

async function ready<T extends Counters>(t: TestContext, counters: T): Promise<T> {
  t.after(() => counters.close())
  await waitFor('the backend to answer', () => counters.healthy)
  return counters
}

const outcomeOf = (call: ReturnType<Counters['add']>): Promise<readonly number[] | string> =>
  Promise.resolve(call).catch((error: Error) => error.message)

/** Calls until the breaker rejects calls. It opens although no byte arrives from the server. */
async function callUntilOpen(counters: Pick<Counters, 'add'>, key: string): Promise<void> {
  await waitFor('an answer of the breaker', async () => {
    const answer = await Promise.race([outcomeOf(counters.add([hit(key)])), nextTurn()])
    return typeof answer === 'string' && /owed replies and sent nothing for \d+ ms/.test(answer)
  })
}

const nextTurn = () => new Promise<undefined>(resolve => setImmediate(resolve, undefined))

/**
 * Stalls one of two servers: calls with a key of that server then fail at once, and calls with a key of the
 * other server are counted.
 */
async function stallOne(
  t: TestContext,
  counters: Pick<Counters, 'add'>,
  stalled: Stalled,
  other: string,
): Promise<void> {
  const { server, key, breakers } = stalled
  await counters.add([hit(key)])
  await server.kill('SIGSTOP')
  t.after(() => server.kill('SIGCONT'))
  await callUntilOpen(counters, key)
  assert.deepEqual([breakers.openNow(), breakers.opened()], [1, 1])
  // A busy machine may miss a short deadline.
  await waitFor('the other server to count', async () => {
    return typeof (await outcomeOf(counters.add([hit(other)]))) !== 'string'
  })
  await server.kill('SIGCONT')
  await waitFor('the breaker to close by itself', () => breakers.openNow() === 0)
  await waitFor('the server to count', async () => {
    return typeof (await outcomeOf(counters.add([hit(key)]))) !== 'string'
  })
}

interface Stalled {
  readonly server: Pick<RedisServer, 'kill'>
  readonly key: string
  readonly breakers: ReturnType<typeof watched>
}

describe('the circuit breaker of each server', { skip }, () => {
  async function start(t: TestContext): Promise<RedisServer> {
    const redis = await startRedis()
    t.after(() => redis.stop())
    return redis
  }

  test('one Redis: it also closes for a user with access to only one prefix', async t => {
    const redis = await start(t)
    const commands = ['+ping', '+get', '+incrby', '+expire']
    await redis.command('ACL', 'SETUSER', 'limiter', 'on', '>secret', '~rl:*', '-@all', ...commands)
    const breakers = watched('ratelimit.redis_pool')
    const url = `redis://limiter:secret@127.0.0.1:${redis.port}`
    const counters = await ready(t, createRedisCounters({ ...brief, ...breakers.options, url }))
    await counters.add([hit('rl:a')])
    for (let stall = 1; stall <= 3; stall += 1) {
      await redis.kill('SIGSTOP')
      await callUntilOpen(counters, 'rl:a')
      assert.deepEqual([breakers.openNow(), breakers.opened()], [1, stall])
      await redis.kill('SIGCONT')
      await waitFor('the breaker to close by itself', () => breakers.openNow() === 0)
    }
    assert.equal(counters.healthy, true)
    const server = `Redis 127.0.0.1:${redis.port}`
    assert.deepEqual(breakers.lines.slice(0, 2), [
      `open circuit breaker ${server}: Redis owed replies and sent nothing for 100 ms`,
      `close circuit breaker ${server}: Redis answers again`,
    ])
  })

  test('one Redis: error replies do not open it', async t => {
    const redis = await start(t)
    const breakers = watched('ratelimit.redis_pool')
    const options = { ...brief, deadlineMs: 5_000, ...breakers.options, url: redis.url }
    const counters = await ready(t, createRedisCounters(options))
    await redis.command('SET', 'word', 'x')
    for (let call = 0; call < 50; call += 1) {
      assert.match(String(await outcomeOf(counters.add([hit('word')]))), /^ERR value is not an integer/)
    }
    await redis.command('REPLICAOF', '127.0.0.1', '1')
    for (let call = 0; call < 50; call += 1) {
      assert.match(String(await outcomeOf(counters.add([hit('a')]))), /^READONLY /)
    }
    assert.equal(breakers.opened(), 0)
  })

  test('one Redis: it closes when the connection ends, and is closed for a new one', async t => {
    const redis = await start(t)
    const breakers = watched('ratelimit.redis_pool')
    const options = { ...brief, stallTimeoutMs: 300, ...breakers.options, url: redis.url }
    const counters = await ready(t, createRedisCounters(options))
    await redis.kill('SIGSTOP')
    await callUntilOpen(counters, 'a')
    await waitFor('the end of the connection', () => !counters.healthy)
    assert.deepEqual([breakers.openNow(), breakers.opened()], [0, 1])
    await redis.kill('SIGKILL')
    await redis.restart()
    await waitFor('a new connection', () => counters.healthy)
    await waitFor('a count', async () => typeof (await outcomeOf(counters.add([hit('a')]))) !== 'string')
  })

  test('a second Redis for limits per second', async t => {
    const [main, small] = [await start(t), await start(t)]
    const breakers = watched('ratelimit.redis_per_second_pool')
    const pool = 'redis_per_second_pool'
    const counters = createRedisCounters({ ...brief, url: main.url })
    const perSecond = createRedisCounters({ ...brief, ...breakers.options, pool, url: small.url })
    const both = new PerSecondCounters(counters, perSecond, false)
    await ready(t, both)
    const add: Counters['add'] = batch =>
      both.add(batch.map(each => ({ ...each, perSecond: each.key === 'brief' })))
    await stallOne(t, { add }, { server: small, key: 'brief', breakers }, 'long')
  })

  test('the masters of a cluster', async t => {
    const cluster = await startRedisCluster()
    t.after(() => cluster.stop())
    const breakers = watched('ratelimit.redis_pool')
    const options = { ...brief, ...breakers.options, type: 'cluster', url: cluster.url }
    const counters = await ready(t, createRedisCounters(options))
    const [server] = cluster.masters
    assert.ok(server)
    const keys = Array.from({ length: 20 }, (_, index) => `key-${index}`)
    const isHere = async (key: string) =>
      server.command('GET', key).then(
        () => true,
        () => false,
      )
    const here = await Promise.all(keys.map(isHere))
    const [key = '', other = ''] = [keys[here.indexOf(true)], keys[here.indexOf(false)]]
    await stallOne(t, counters, { server, key, breakers }, other)
  })

  test('the servers of memcached', { skip: missingProgram('memcached') }, async t => {
    const servers = [await startMemcached(), await startMemcached()] as const
    t.after(() => Promise.all(servers.map(server => server.stop())))
    const breakers = watched('ratelimit.memcache')
    const hostPort = servers.map(({ address }) => address)
    const counters = await ready(t, new MemcachedCounters({ ...brief, ...breakers.options, hostPort }))
    const keyOf = (place: number): string => {
      for (let index = 0; ; index += 1) if (pickServer(`key-${index}`, 2) === place) return `key-${index}`
    }
    await stallOne(t, counters, { server: servers[0], key: keyOf(0), breakers }, keyOf(1))
  })
})
