import assert from 'node:assert/strict'
import { after, before, describe, type TestContext, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import type { RateLimitDomain } from '@tollway/ratelimit/rules/model.ts'
import type { RateLimitProcess } from '../support/rate-limit-process.ts'
import { startRedisCluster } from '../support/redis-cluster.ts'
import { startRedisSentinels } from '../support/redis-sentinels.ts'
import { type RedisServer, startRedis } from '../support/redis-server.ts'
import { domainOf, startReportingOperator, startReportingProcess } from '../support/reporting-operator.ts'
import { missingProgram } from '../support/require-server.ts'
import { waitFor } from '../support/wait-for.ts'

type Algorithm = 'FixedWindow' | 'SlidingWindow' | 'TokenBucket'

const uids = ['a', 'b', 'c']
const workers = 2

/** The limit is three hits a day for each user. */
function limitBy(algorithm: Algorithm): RateLimitDomain {
  const config = domainOf(
    '{domain: shop, descriptors: [{key: user, rate_limit: {unit: day, requests_per_unit: 3}}]}',
  )
  const [rule] = config.descriptors
  assert.ok(rule?.rateLimit)
  return { ...config, descriptors: [{ ...rule, rateLimit: { ...rule.rateLimit, algorithm } }] }
}

const alice = { domain: 'shop', entries: [{ key: 'user', value: 'alice' }] }

/** Starts three pods with local caches, of two workers each by default. */
async function startPods(t: TestContext, config: RateLimitDomain, env: Readonly<Record<string, string>>) {
  const { port, sessions, table } = await startReportingOperator(t, config)
  const all = {
    ...{ BACKEND_TYPE: 'redis', KVSTORE_SOCKET_TYPE: 'tcp', LocalCacheSizeInBytes: '1000000' },
    ...{ WORKERS: `${workers}`, ...env },
  }
  const pods = await Promise.all(uids.map(uid => startReportingProcess(t, port, uid, all)))
  await waitFor('the sessions of all workers', () => {
    const ready = table.sessions().filter(({ state }) => state.domains.has('shop'))
    return ready.length === uids.length * Number(all.WORKERS)
  })
  return { pods, sessions }
}

const asksOfEach = 12

/**
 * Calls all pods, and returns the number of allowed calls. Afterwards the workers have cached the rejection.
 */
async function exhaust(pods: readonly RateLimitProcess[]): Promise<number> {
  let allowed = 0
  for (let ask = 0; ask < asksOfEach; ask++) {
    const codes = await Promise.all(pods.map(pod => pod.ask('shop', 'user', 'alice')))
    allowed += codes.filter(code => code === 200).length
  }
  return allowed
}

/** The allowed calls after a reset, after a raise by 2 of that, and after another one when exhausted. */
const allowedAfter = {
  // Rejected calls count too, so a raise of an exhausted counter grants an unknown number.
  FixedWindow: [3, 5],
  SlidingWindow: [3, 5, 2],
  // Tokens beyond a full bucket are lost.
  TokenBucket: [3, 3, 2],
} as const

async function changesEverywhere(
  t: TestContext,
  algorithm: Algorithm,
  env: Readonly<Record<string, string>>,
) {
  const { pods, sessions } = await startPods(t, limitBy(algorithm), env)
  assert.equal(await exhaust(pods), 3)
  const [afterReset, afterRaise, afterSecondRaise] = allowedAfter[algorithm]
  const change = async (by?: number) => {
    const changed = await (by === undefined ? sessions.reset(alice) : sessions.raise(alice, by))
    assert.deepEqual([changed.confirmed, changed.missing], [uids, []])
    return changed.counters[0]?.value
  }
  assert.equal(await change(), 0)
  assert.equal(await exhaust(pods), afterReset)
  await change()
  await change(2)
  assert.equal(await exhaust(pods), afterRaise)
  if (afterSecondRaise !== undefined) {
    await change(2)
    assert.equal(await exhaust(pods), afterSecondRaise)
  }
}

describe('changes of counters at three pods of two workers', { skip: missingProgram('redis-server') }, () => {
  let redis: RedisServer
  before(async () => {
    redis = await startRedis()
  })
  after(() => redis.stop())

  for (const algorithm of Object.keys(allowedAfter) as Algorithm[]) {
    test(`a ${algorithm} in Redis is reset and raised, and no worker rejects from its cache`, async t => {
      await changesEverywhere(t, algorithm, {
        KVSTORE_URL: `127.0.0.1:${redis.port}`,
        CACHE_KEY_PREFIX: algorithm,
      })
    })
  }

  test('a SlidingWindow in a Redis Cluster is reset and raised', async t => {
    const cluster = await startRedisCluster()
    t.after(() => cluster.stop())
    await changesEverywhere(t, 'SlidingWindow', { KVSTORE_TYPE: 'CLUSTER', KVSTORE_URL: cluster.url })
  })

  test('a TokenBucket behind sentinels is reset and raised', async t => {
    const set = await startRedisSentinels()
    t.after(() => set.stop())
    await changesEverywhere(t, 'TokenBucket', { KVSTORE_TYPE: 'SENTINEL', KVSTORE_URL: set.url })
  })

  test('a reset and a raise revoke the leases of all pods', async t => {
    const config = limitBy('TokenBucket')
    const [rule] = config.descriptors
    assert.ok(rule?.rateLimit)
    const rateLimit = { ...rule.rateLimit, requestsPerUnit: 1, burst: 300, counting: 'Leased' } as const
    const leased = { ...config, descriptors: [{ ...rule, rateLimit }] }
    const { pods, sessions } = await startPods(t, leased, {
      ...{ KVSTORE_URL: `127.0.0.1:${redis.port}`, CACHE_KEY_PREFIX: 'leased', WORKERS: '1' },
    })
    /** Calls all pods at once until nothing is allowed, also after they have returned what they do not use. */
    const admitAll = async () => {
      let [all, allowed] = [0, 0]
      do {
        const calls = pods.flatMap(pod => Array.from({ length: 150 }, () => pod.ask('shop', 'user', 'alice')))
        allowed = (await Promise.all(calls)).filter(code => code === 200).length
        all += allowed
        await pause(1_200)
      } while (allowed > 0)
      return all
    }
    assert.equal(await admitAll(), 300)
    await sessions.reset(alice)
    assert.equal(await admitAll(), 300)
    await sessions.raise(alice, 20)
    assert.equal(await admitAll(), 20)
    // Leases are open when the next reset comes. They are dropped, and everything is there again.
    await waitFor('a lease', async () => {
      await sessions.reset(alice)
      const calls = pods.flatMap(pod => Array.from({ length: 60 }, () => pod.ask('shop', 'user', 'alice')))
      await Promise.all(calls)
      const stats = await Promise.all(pods.map(pod => pod.stats()))
      return stats.some(all => (all['ratelimit.leases.hits'] ?? 0) > 0)
    })
    await sessions.reset(alice)
    assert.equal(await admitAll(), 300)
  })
})
