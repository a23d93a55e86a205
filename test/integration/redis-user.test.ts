import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { RateLimitResponse_Code as Code } from '@tollway/proto/envoy/service/ratelimit/v3/rls'
import { RateLimitAlgorithm, RateLimitUnit } from '@tollway/proto/ratelimit/config/ratelimit/v3/rls_conf'
import { openRedis } from '../../services/ratelimit/counters/testing/open-redis-counters.ts'
import { callBudgets } from '../support/call-budgets.ts'
import { encodeDomain, encodeResponse, startLimitFeed } from '../support/limit-feed.ts'
import { callRateLimit, startRateLimit } from '../support/rate-limit-process.ts'
import { startRedisCluster } from '../support/redis-cluster.ts'
import { startRedisSentinels } from '../support/redis-sentinels.ts'
import { type RedisServer, startRedis } from '../support/redis-server.ts'
import { requireProgram } from '../support/require-server.ts'
import { root } from '../support/tollway.ts'
import { waitFor } from '../support/wait-for.ts'

/** The line of the page for operators, with the commands that only some installations need. */
const page = readFileSync(join(root, 'docs/operations/reliability.md'), 'utf8')
const [, line = ''] = /ACL SETUSER (tollway .*)/.exec(page) ?? []
const words = line.replace('PASSWORD', 'secret').split(' ')

const unit = RateLimitUnit.DAY
const sliding = { unit, requestsPerUnit: 9, algorithm: RateLimitAlgorithm.SLIDING_WINDOW }
const bucket = { unit, requestsPerUnit: 9, algorithm: RateLimitAlgorithm.TOKEN_BUCKET }
const concurrency = {
  ...{ maxConcurrent: 9, leaseSeconds: 1 },
  algorithm: RateLimitAlgorithm.CONCURRENCY,
}
const descriptors = [
  { key: 'fixed', rateLimit: { unit, requestsPerUnit: 2 } },
  { key: 'sliding', rateLimit: sliding },
  { key: 'bucket', rateLimit: bucket },
  { key: 'holds', rateLimit: concurrency },
]

/** Starts the service as the user, and uses every kind of limit and of call. */
async function useEverything(
  t: TestContext,
  servers: readonly RedisServer[],
  settings: Record<string, string>,
) {
  const feed = await startLimitFeed()
  t.after(() => feed.stop())
  feed.send(encodeResponse('1', [encodeDomain({ name: 'shop', domain: 'shop', descriptors })]))
  const env = {
    ...{ BACKEND_TYPE: 'redis', KVSTORE_SOCKET_TYPE: 'tcp', KVSTORE_AUTH: 'tollway:secret' },
    ...{ CACHE_KEY_PREFIX: 'rl:', LOCAL_CACHE_SIZE_IN_BYTES: '1000000', ...settings },
    ...feed.settings,
  }
  const service = await startRateLimit(t, env)
  await service.serves()
  const { shouldRateLimit } = callRateLimit(t, service.grpcPort)
  const { reserve, commit, release, extend } = callBudgets(t, service.grpcPort)
  const descriptor = (key: string) => ({ entries: [{ key, value: 'alice' }] })
  const call = async (key: string, hits: bigint, isNegativeHits = false) => {
    const descriptors = [{ ...descriptor(key), hitsAddend: hits, isNegativeHits }]
    const { statuses } = await shouldRateLimit({ domain: 'shop', descriptors })
    return statuses[0]
  }
  for (const key of ['sliding', 'bucket', 'holds']) {
    assert.equal((await call(key, 4n))?.limitRemaining, 5, key)
    assert.equal((await call(key, 3n, true))?.limitRemaining, 8, key)
  }
  for (const code of [Code.OK, Code.OK, Code.OVER_LIMIT, Code.OVER_LIMIT]) {
    assert.equal((await call('fixed', 1n))?.code, code)
  }
  const subscribed = async () => {
    const counts = servers.map(server => server.command('PUBSUB', 'NUMSUB', 'rl:tollway-changed-counters'))
    return (await Promise.all(counts)).some(count => count.endsWith('1'))
  }
  await waitFor('the subscription', subscribed)
  await call('fixed', 3n, true)
  await waitFor('the local cache to be told', async () => (await call('fixed', 0n))?.code === Code.OK)
  for (const key of ['sliding', 'bucket', 'holds']) {
    const ask = async (ttlSeconds: number) => {
      const ttl = { seconds: BigInt(ttlSeconds) }
      const { result } = await reserve({ domain: 'shop', descriptor: descriptor(key), amount: 2n, ttl })
      return result.case === 'reservation' ? result.value.id : assert.fail(`${key}: ${result.case}`)
    }
    await commit({ id: await ask(60), actual: 1n })
    await release({ id: await ask(60) })
    const extended = await ask(60)
    await extend({ id: extended, ttl: { nanos: 200_000_000 } })
    await waitFor('the amount to return by itself', async () => {
      return ((await call(key, 0n))?.limitRemaining ?? 0) >= 7
    })
  }
  await waitFor('a hold to end beside others', async () => {
    await call('holds', 1n)
    return (await commandsOf(servers)).has('zremrangebyscore')
  })
  return service
}

/** Lists the commands that Redis has run, also within scripts. */
async function commandsOf(servers: readonly RedisServer[]): Promise<ReadonlySet<string>> {
  const infos = await Promise.all(servers.map(server => server.command('INFO', 'commandstats')))
  const run = infos.flatMap(info => [...info.matchAll(/^cmdstat_([^:]+):calls=[1-9]/gm)])
  return new Set(run.map(([, name = '']) => name))
}

const ofThisTest = ['acl|setuser', 'config|resetstat', 'pubsub|numsub', 'auth', 'info', 'flushall', 'keys']

async function addUser(servers: readonly RedisServer[], commands: readonly string[]) {
  for (const server of servers) {
    await server.command('ACL', 'SETUSER', ...words, ...commands)
    await server.command('CONFIG', 'RESETSTAT')
  }
}

test('a user needs exactly the documented commands, keys and channel', async t => {
  if (!requireProgram(t, 'redis-server')) return
  const redis = await startRedis()
  t.after(() => redis.stop())
  await addUser([redis], [])
  const service = await useEverything(t, [redis], { KVSTORE_URL: `127.0.0.1:${redis.port}` })
  const names = (await redis.command('KEYS', 'rl:*:reservations:*')).split('\n')
  const ledgerKey = names.find(name => !name.endsWith(':due')) ?? assert.fail('there is no ledger')
  // The operator asks a pod for it.
  const counters = await openRedis(t, { url: redis.url, auth: 'tollway:secret' })
  await counters.reservations.read(ledgerKey, 1)
  await counters.close()
  const listed = words.filter(word => word.startsWith('+')).map(word => word.slice(1))
  const run = [...(await commandsOf([redis]))].filter(name => !ofThisTest.includes(name))
  assert.deepEqual(run.toSorted(), listed.toSorted())
  assert.doesNotMatch(service.program.output(), /level=error|NOPERM/)
  await service.program.end('SIGTERM')
  await redis.command('FLUSHALL')
  const url = { KVSTORE_URL: `redis://127.0.0.1:${redis.port}/3` }
  await addUser([redis], ['+select'])
  await useEverything(t, [redis], { ...url, STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT: 'true' })
  assert.ok((await commandsOf([redis])).has('select'))
})

test('with sentinels the user also needs ROLE', async t => {
  if (!requireProgram(t, 'redis-server')) return
  const all = await startRedisSentinels()
  t.after(() => all.stop())
  await addUser([all.master], ['+role'])
  await useEverything(t, [all.master], { KVSTORE_TYPE: 'sentinel', KVSTORE_URL: all.url })
  assert.ok((await commandsOf([all.master])).has('role'))
})

test('with a cluster the user also needs CLUSTER SLOTS', async t => {
  if (!requireProgram(t, 'redis-server')) return
  const cluster = await startRedisCluster()
  t.after(() => cluster.stop())
  await addUser(cluster.masters, ['+cluster|slots', '+asking'])
  await useEverything(t, cluster.masters, { KVSTORE_TYPE: 'cluster', KVSTORE_URL: cluster.url })
  assert.ok((await commandsOf(cluster.masters)).has('cluster|slots'))
})
