import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { RateLimitResponse_Code as Code } from '@tollway/proto/envoy/service/ratelimit/v3/rls'
import { callBudgets } from '../support/call-budgets.ts'
import { rateLimitFiles, userLimit } from '../support/rate-limit-files.ts'
import { callRateLimit, startRateLimit } from '../support/rate-limit-process.ts'
import { startRedis } from '../support/redis-server.ts'
import { requireProgram } from '../support/require-server.ts'
import { waitFor } from '../support/wait-for.ts'

/** Starts two processes on one Redis, each with a local cache. */
async function startBoth(t: TestContext, limit: string) {
  const redis = await startRedis()
  t.after(() => redis.stop())
  const env = {
    ...{ BACKEND_TYPE: 'redis', KVSTORE_SOCKET_TYPE: 'tcp', KVSTORE_URL: `127.0.0.1:${redis.port}` },
    ...{ LocalCacheSizeInBytes: '1000000', ...rateLimitFiles(userLimit(limit)).env },
  }
  const services = await Promise.all([startRateLimit(t, env), startRateLimit(t, env)])
  await Promise.all(services.map(service => service.serves()))
  const [first, second] = services.map(({ grpcPort }) => callRateLimit(t, grpcPort))
  assert.ok(first && second)
  const isOver = async (caller: typeof first, hits = 1n, isNegativeHits = false) => {
    const entries = [{ key: 'user', value: 'alice' }]
    const descriptors = [{ entries, hitsAddend: hits, isNegativeHits }]
    const { overallCode } = await caller.shouldRateLimit({ domain: 'shop', descriptors })
    return overallCode === Code.OVER_LIMIT
  }
  const subscribers = async () =>
    Number((await redis.command('PUBSUB', 'NUMSUB', 'tollway-changed-counters')).split('\n')[1])
  await waitFor('both subscriptions', async () => (await subscribers()) === 2)
  const cached = async () => {
    const stats = await Promise.all(services.map(service => service.stats()))
    return stats.map(each => each['ratelimit.service.rate_limit.shop.user.over_limit_with_local_cache'])
  }
  return { redis, first, second, isOver, subscribers, cached, services }
}

test('hits that one process gives back end the rejections from the local caches of all', async t => {
  if (!requireProgram(t, 'redis-server')) return
  const { redis, first, second, isOver, subscribers, cached, services } = await startBoth(t, '3/day')
  const exhaust = async () => {
    for (let call = 0; call < 3; call++) assert.equal(await isOver(first), false)
    for (const caller of [first, second, first, second]) assert.equal(await isOver(caller), true)
  }
  await exhaust()
  assert.deepEqual(await cached(), [1, 1])
  // The counter has the hits of the two calls that Redis rejected too.
  assert.equal(await isOver(first, 5n, true), false)
  await waitFor('the other process to admit a call', async () => !(await isOver(second)))
  const stats = await services[0]?.stats()
  assert.equal(
    stats?.['ratelimit.service.rate_limit.shop.user.total_hits'],
    5,
    'what is given back is no hit',
  )

  await redis.command('FLUSHALL')
  await isOver(first, 1n, true)
  await waitFor(
    'both caches to be empty',
    async () => !(await isOver(first, 0n)) && !(await isOver(second, 0n)),
  )
  await redis.command('FLUSHALL')
  await exhaust()
  // Messages while a subscription is lost are missed, so its process trusts nothing that it has cached.
  await redis.command('DEL', (await redis.command('KEYS', 'shop_*')).trim())
  assert.equal(await isOver(second), true, 'no message tells of the deletion')
  await redis.command('CLIENT', 'KILL', 'TYPE', 'pubsub')
  await waitFor('both subscriptions', async () => (await subscribers()) === 2)
  await waitFor('the cache to be cleared', async () => !(await isOver(second, 0n)))
  assert.equal(await isOver(second), false)
})

for (const end of ['Commit', 'Release', 'time'] as const) {
  test(`what a reservation gives back by ${end} ends the rejections from the local caches of both`, async t => {
    if (!requireProgram(t, 'redis-server')) return
    const { redis, first, second, isOver, cached, services } = await startBoth(t, '5/day')
    const [atFirst, atSecond] = services.map(({ grpcPort }) => callBudgets(t, grpcPort))
    assert.ok(atFirst && atSecond)
    const descriptor = { entries: [{ key: 'user', value: 'alice' }] }
    const { result } = await atFirst.reserve({
      ...{ domain: 'shop', descriptor, amount: 5n, ttl: { seconds: end === 'time' ? 3n : 60n } },
    })
    assert.ok(result.case === 'reservation')
    for (const caller of [first, second, first, second]) assert.equal(await isOver(caller), true)
    assert.deepEqual(await cached(), [1, 1])
    const { id } = result.value
    const used = end === 'Commit' ? 1n : 0n
    if (end === 'Commit') await atSecond.commit({ id, actual: used })
    else if (end === 'Release') await atSecond.release({ id })
    for (const caller of [first, second]) {
      await waitFor('a call to be admitted', async () => !(await isOver(caller, 0n)), 15_000)
    }
    const key = (await redis.command('KEYS', 'shop_*')).trim()
    assert.equal(await redis.command('GET', key), `${used + 2n}`, 'it counts two rejected calls')
  })
}
