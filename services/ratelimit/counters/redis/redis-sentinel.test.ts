import assert from 'node:assert/strict'
import { after, before, describe, type TestContext, test } from 'node:test'
import {
  type RedisSentinels,
  type RedisSentinelsOptions,
  startRedisSentinels,
} from '../../../../test/support/redis-sentinels.ts'
import type { RedisServer } from '../../../../test/support/redis-server.ts'
import { missingProgram } from '../../../../test/support/require-server.ts'
import { waitFor } from '../../../../test/support/wait-for.ts'
import { countersContract } from '../testing/counters.contract.ts'
import { hit, openRedis, problemOf, startLoad, type TestedOptions } from '../testing/open-redis-counters.ts'
import { reservationsContract } from '../testing/reservations.contract.ts'
import { createRedisCounters } from './redis.ts'
import type { RedisCounters } from './redis-setup.ts'
import { sendCommandOnce } from './resp/session.ts'

const skip = missingProgram('redis-server')

describe('counters behind sentinels', { skip }, () => {
  let set: RedisSentinels
  before(async () => {
    set = await startRedisSentinels()
  })
  after(() => set?.stop())

  function open(t: TestContext, options: Partial<TestedOptions> = {}): Promise<RedisCounters> {
    return openRedis(t, { type: 'sentinel', url: set.url, ...options })
  }

  countersContract('Redis behind sentinels', async t => {
    await set.master.command('FLUSHALL')
    return { counters: await open(t), peer: await open(t) }
  })

  reservationsContract('Redis behind sentinels', async t => {
    await set.master.command('FLUSHALL')
    const [counters, peer] = await Promise.all([open(t), open(t)])
    t.after(() => Promise.all([counters.close(), peer.close()]))
    return { counters, peer }
  })

  function unhealthy(t: TestContext, url: string): RedisCounters {
    const counters = createRedisCounters({ type: 'sentinel', url, random: Math.random })
    t.after(() => counters.close())
    return counters
  }

  test('an unknown master name is reported', async t => {
    const counters = unhealthy(t, set.url.replace('mymaster', 'other'))
    await waitFor('the problem', () => counters.problem === 'the sentinels know no master named other')
    assert.match(await problemOf(counters.add([hit('a')])), /no master named other/)
  })

  test('without any sentinel, the problem has the reason', async t => {
    const counters = unhealthy(t, 'mymaster,127.0.0.1:1')
    await waitFor('the problem', () => counters.problem.includes('ECONNREFUSED'))
    assert.match(counters.problem, /^no sentinel reports the master: /)
  })

  test('a dead sentinel and a hanging one cause no errors', async t => {
    const [hanging, ...others] = set.sentinelPorts
    set.sentinels[0]?.process.kill('SIGSTOP')
    t.after(() => set.sentinels[0]?.process.kill('SIGCONT'))
    const ports = [1, hanging, others[0]]
    const counters = await open(t, { url: ['mymaster', ...ports.map(port => `127.0.0.1:${port}`)].join(',') })
    t.after(() => counters.close())
  })

  test('a master that becomes a replica is dropped at its first error, and used again later', async t => {
    const counters = await open(t)
    t.after(() => counters.close())
    await set.master.command('REPLICAOF', '127.0.0.1', '1')
    t.after(() => set.master.command('REPLICAOF', 'NO', 'ONE'))
    assert.match(await problemOf(counters.add([hit('a')])), /^READONLY /)
    await waitFor(
      'it to be rejected',
      () => counters.problem === 'the server is a replica and not the master',
    )
    assert.match(await problemOf(counters.add([hit('a', 0)])), /replica/)
    await set.master.command('REPLICAOF', 'NO', 'ONE')
    await waitFor('it to be used', () => counters.healthy)
    await counters.add([hit('a')])
  })
})

/** Changes the master while callers count. Checks that the new master is used and no hit is counted twice. */
async function assertFollows(
  t: TestContext,
  change: (set: RedisSentinels) => Promise<unknown>,
): Promise<void> {
  const set = await startRedisSentinels()
  t.after(() => set.stop())
  const counters = await openRedis(t, { type: 'sentinel', url: set.url })
  t.after(() => counters.close())
  const load = startLoad(t, counters)
  await waitFor('answers', () => load.values.length > 500)
  await change(set)
  const next = await waitFor('the next master', () => findMaster(set.replicas))
  await waitFor('calls to reach it', async () => {
    const answered = load.values.length
    await waitFor('answers', () => counters.healthy && load.values.length > answered + 500)
    return (await next.command('CLIENT', 'LIST', 'TYPE', 'normal')).includes('cmd=incrby')
  })
  await load.stop()
  const [total = 0] = await counters.add([hit('load', 0)])
  const most = load.values.length + load.failures.length
  assert.ok(total <= most, `${total} were counted, at most ${most} were sent`)
  assert.ok(Number(await next.command('TTL', 'load')) > 0)
}

describe('a failover by sentinels', { skip }, () => {
  test('on request', async t => {
    await assertFollows(t, set => askSentinel(set, 'FAILOVER', 'mymaster'))
  })

  test('after the master was killed', async t => {
    await assertFollows(t, ({ master }) => master.kill('SIGKILL'))
  })
})

/** Returns the server whose ROLE is master. */
async function findMaster(servers: readonly RedisServer[]): Promise<RedisServer | undefined> {
  for (const server of servers) {
    const role = await server.command('ROLE')
    if (role.startsWith('master')) return server
  }
  return undefined
}

async function askSentinel(set: RedisSentinels, ...words: string[]): Promise<void> {
  const [port = 0] = set.sentinelPorts
  await sendCommandOnce({ endpoint: { host: '127.0.0.1', port }, timeoutMs: 5_000 }, 'SENTINEL', ...words)
}

describe('sentinels and a Redis with passwords', { skip }, () => {
  const passwords: RedisSentinelsOptions = {
    sentinelLines: ['requirepass watch:word', 'sentinel sentinel-pass watch:word'],
  }

  test('each login has its own password', async t => {
    const set = await startRedisSentinels(passwords)
    t.after(() => set.stop())
    await set.master.command('ACL', 'SETUSER', 'tollway', 'on', '>secret', '~*', '+@all')
    const options = { type: 'sentinel', url: set.url, auth: 'tollway:secret' }
    const counters = await openRedis(t, { ...options, sentinelAuth: ':watch:word' })
    t.after(() => counters.close())
    assert.match(await set.master.command('CLIENT', 'LIST', 'TYPE', 'normal'), /user=tollway/)

    const rejected = createRedisCounters({ ...options, random: Math.random })
    t.after(() => rejected.close())
    await waitFor('the rejection', () => /^no sentinel reports the master: NOAUTH /.test(rejected.problem))
  })
})
