import assert from 'node:assert/strict'
import { after, before, describe, type TestContext, test } from 'node:test'
import { RateLimitResponse_Code as Code } from '@tollway/proto/envoy/service/ratelimit/v3/rls'
import { RateLimitAlgorithm, RateLimitUnit } from '@tollway/proto/ratelimit/config/ratelimit/v3/rls_conf'
import {
  encodeDomain,
  encodeResponse,
  type LimitDomainMessage,
  startLimitFeed,
} from '../support/limit-feed.ts'
import { callRateLimit, startRateLimit } from '../support/rate-limit-process.ts'
import { startRedisCluster } from '../support/redis-cluster.ts'
import { startRedisSentinels } from '../support/redis-sentinels.ts'
import { type RedisServer, startRedis } from '../support/redis-server.ts'
import { missingProgram } from '../support/require-server.ts'
import { waitFor } from '../support/wait-for.ts'

const { SLIDING_WINDOW, TOKEN_BUCKET: algorithm } = RateLimitAlgorithm
const { MINUTE, HOUR, DAY } = RateLimitUnit

type Limit = NonNullable<NonNullable<LimitDomainMessage['descriptors']>[number]['rateLimit']>

/** A response of the feed with one limit of `user` in the domain `shop`. */
function responseWith(version: string, rateLimit: Limit): Uint8Array {
  const domain = { name: 'default/shop', domain: 'shop', descriptors: [{ key: 'user', rateLimit }] }
  return encodeResponse(version, [encodeDomain(domain)])
}

describe('algorithms in processes that follow a feed', { skip: missingProgram('redis-server') }, () => {
  let redis: RedisServer
  before(async () => {
    redis = await startRedis()
  })
  after(() => redis.stop())

  async function open(t: TestContext, limit: Limit, settings = {}) {
    const feed = await startLimitFeed()
    t.after(() => feed.stop())
    feed.send(responseWith('1', limit))
    const service = await startRateLimit(t, {
      KVSTORE_SOCKET_TYPE: 'tcp',
      KVSTORE_URL: `127.0.0.1:${redis.port}`,
      ...feed.settings,
      ...settings,
    })
    return { feed, service, caller: callRateLimit(t, service.grpcPort) }
  }

  const createRequest = (value: string, hitsAddend = 0) => ({
    domain: 'shop',
    hitsAddend,
    descriptors: [{ entries: [{ key: 'user', value }] }],
  })

  test('a token bucket is enforced, with the wait until the next request', async t => {
    const limit = { unit: HOUR, requestsPerUnit: 60, algorithm, burst: 3, name: 'bucket' }
    const { service, caller } = await open(t, limit)
    await service.serves()
    const answers = []
    for (let call = 0; call < 4; call += 1) answers.push(await caller.shouldRateLimit(createRequest('a')))
    assert.deepEqual(
      answers.map(({ overallCode, statuses }) => [overallCode, statuses[0]?.limitRemaining]),
      [
        [Code.OK, 2],
        [Code.OK, 1],
        [Code.OK, 0],
        [Code.OVER_LIMIT, 0],
      ],
    )
    const [rejected] = answers.at(-1)?.statuses ?? []
    assert.equal(rejected?.currentLimit?.name, 'bucket')
    assert.ok(Number(rejected?.durationUntilReset?.seconds) > 50, `${rejected?.durationUntilReset?.seconds}`)
    const never = await caller.shouldRateLimit(createRequest('b', 4))
    assert.equal(never.overallCode, Code.OVER_LIMIT)
    assert.equal(never.statuses[0]?.durationUntilReset, undefined)
    const stats = await service.stats()
    assert.equal(stats['ratelimit.service.rate_limit.shop.user.over_limit'], 5)
  })

  test('a Redis login without scripts rejects such rules by name, and fixed windows continue', async t => {
    await redis.command('ACL', 'SETUSER', 'plain', 'on', '>pw', '~*', '+@all', '-@scripting')
    const plain = { unit: DAY, requestsPerUnit: 2 }
    const { feed, service } = await open(t, plain, { KVSTORE_AUTH: 'plain:pw' })
    await service.serves()
    feed.send(responseWith('2', { unit: MINUTE, requestsPerUnit: 9, algorithm }))
    const rejection = () => feed.requests.find(({ errorDetail }) => errorDetail)?.errorDetail?.message ?? ''
    await waitFor('the rejection', () => rejection().includes('evalsha'))
    assert.match(
      rejection(),
      /default\/shop: it needs algorithms, which Redis rejects: NOPERM.*'evalsha' command/,
    )
    const codes = []
    for (let call = 0; call < 3; call += 1) codes.push(await service.ask('shop', 'user', 'restricted'))
    assert.deepEqual(codes, [200, 200, 429])
  })
})

const budget = { unit: RateLimitUnit.YEAR, requestsPerUnit: 100, countRejected: true }
const budgets = [budget, { ...budget, algorithm: SLIDING_WINDOW }, { ...budget, algorithm }]
const descriptors = [
  ...['fixed', 'sliding', 'bucket'].map((key, index) => ({ key, rateLimit: budgets[index] ?? budget })),
  { key: 'several', limits: budgets },
]

type OpenStore = (t: TestContext) => Promise<Readonly<Record<string, string>>>
const stores: Readonly<Record<string, OpenStore>> = {
  memory: async () => ({ BACKEND_TYPE: 'memory' }),
  'a Redis Cluster': async t => {
    const cluster = await startRedisCluster()
    t.after(() => cluster.stop())
    return { KVSTORE_TYPE: 'cluster', KVSTORE_SOCKET_TYPE: 'tcp', KVSTORE_URL: cluster.url }
  },
  'a Redis with sentinels': async t => {
    const set = await startRedisSentinels()
    t.after(() => set.stop())
    return { KVSTORE_TYPE: 'sentinel', KVSTORE_SOCKET_TYPE: 'tcp', KVSTORE_URL: set.url }
  },
}

for (const [name, openStore] of Object.entries(stores)) {
  test(`costs that are reported after their calls count in ${name}`, {
    skip: missingProgram('redis-server'),
  }, async t => {
    const feed = await startLimitFeed()
    t.after(() => feed.stop())
    feed.send(encodeResponse('1', [encodeDomain({ name: 'default/shop', domain: 'shop', descriptors })]))
    const settings = { ...(await openStore(t)), LOCAL_CACHE_SIZE_IN_BYTES: '1000000' }
    const service = await startRateLimit(t, { ...settings, ...feed.settings })
    await service.serves()
    const { shouldRateLimit } = callRateLimit(t, service.grpcPort)
    const isAdmitted = async (key: string, hits: bigint) => {
      const request = { domain: 'shop', descriptors: [{ entries: [{ key, value: 'a' }], hitsAddend: hits }] }
      return (await shouldRateLimit(request)).overallCode === Code.OK
    }
    for (const { key } of descriptors) {
      const codes: number[] = []
      for (let call = 0; call < 6; call += 1) {
        const admitted = await isAdmitted(key, 0n)
        codes.push(admitted ? 200 : 429)
        if (admitted) await isAdmitted(key, 30n)
      }
      assert.deepEqual(codes, [200, 200, 200, 200, 429, 429], key)
    }
  })
}
