import assert from 'node:assert/strict'
import { before, describe, it, type TestContext } from 'node:test'
import { GrpcError, statusCodes } from '@tollway/grpc/status.ts'
import { callBudgets } from '../support/call-budgets.ts'
import { startMemcached } from '../support/memcached-server.ts'
import { callRateLimit, type RateLimitProcess, startRateLimit } from '../support/rate-limit-process.ts'
import { startRedis } from '../support/redis-server.ts'
import { requireProgram } from '../support/require-server.ts'
import { manifest, startTollway } from '../support/tollway.ts'
import { checkOutPreviousRelease, fileOfPreviousRelease, missingPreviousRelease } from './previous-release.ts'

const limit = 60

/** Windows that both versions have: of one unit, of several units, and of the calendar. */
const rules = {
  day: `{unit: day, requestsPerUnit: ${limit}}`,
  twoDays: `{unit: day, unitMultiplier: 2, requestsPerUnit: ${limit}}`,
  month: `{unit: month, requestsPerUnit: ${limit}, calendar: {timeZone: Europe/Copenhagen}}`,
}
const keys = Object.keys(rules)
const descriptors = Object.entries(rules).map(([key, rule]) => `    - {key: ${key}, rateLimit: ${rule}}\n`)
const limits = `${manifest('shop', 'shop', {})}${descriptors.join('')}`

describe('rate limit processes of 0.1.0 and of the current version with one store', {
  skip: missingPreviousRelease(),
}, () => {
  before(checkOutPreviousRelease)

  async function startBoth(t: TestContext, store: Readonly<Record<string, string>>) {
    const { feedPort } = await startTollway(t, { 'limits.yaml': limits })
    const feed = {
      CONFIG_TYPE: 'GRPC_XDS_SOTW',
      CONFIG_GRPC_XDS_SERVER_URL: `127.0.0.1:${feedPort}`,
    }
    const env = { ...feed, ...store }
    const pods = await Promise.all([
      startRateLimit(t, env, fileOfPreviousRelease('services/ratelimit/main.ts')),
      startRateLimit(t, env),
    ])
    await Promise.all(pods.map(pod => pod.serves()))
    return pods
  }

  /** Sends twice the limit for each rule, to both at the same time. */
  async function admitTogether(pods: readonly RateLimitProcess[]): Promise<void> {
    for (const key of keys) {
      const calls = Array.from({ length: limit }, () => pods.map(pod => pod.ask('shop', key, 'x'))).flat()
      const codes = await Promise.all(calls)
      assert.equal(codes.filter(code => code === 200).length, limit, key)
      assert.equal(codes.filter(code => code === 429).length, limit, key)
    }
  }

  /** One counts half, the other the rest, as when a pod is replaced, in each direction. */
  async function takeOver(pods: readonly RateLimitProcess[]): Promise<void> {
    for (const [first, second] of [pods, pods.toReversed()]) {
      assert.ok(first && second)
      const user = `from-${first.grpcPort}`
      for (const key of keys) {
        for (let call = 0; call < limit / 2; call++)
          assert.equal(await first.ask('shop', key, user), 200, key)
        for (let call = 0; call < limit / 2; call++)
          assert.equal(await second.ask('shop', key, user), 200, key)
        assert.deepEqual(
          [await first.ask('shop', key, user), await second.ask('shop', key, user)],
          [429, 429],
          key,
        )
      }
    }
  }

  it('they admit exactly the limit over Redis, with one key for each counter', async t => {
    if (requireProgram(t, 'redis-server') === false) return
    const redis = await startRedis()
    t.after(() => redis.stop())
    const pods = await startBoth(t, { BACKEND_TYPE: 'redis', REDIS_TYPE: 'single', REDIS_URL: redis.url })
    await admitTogether(pods)
    const stored = (await redis.command('KEYS', '*')).trim().split('\n')
    // A window may end while the test runs; nothing else makes a second key.
    assert.equal(new Set(stored.map(key => key.replace(/_\d+$/, ''))).size, keys.length, stored.join())
    await takeOver(pods)
  })

  it('a process of 0.1.0 counts what is given back, and has neither reservations nor the methods of Kuadrant', async t => {
    const [old, today] = await startBoth(t, { BACKEND_TYPE: 'memory' })
    assert.ok(old && today)
    const descriptor = { entries: [{ key: 'day', value: 'x' }] }
    const reserveAt = async (port: number) => {
      const { reserve } = callBudgets(t, port)
      const request = { domain: 'shop', descriptor, amount: 1n, ttl: { seconds: 60n } }
      return await reserve(request).then(
        ({ result }) => result.case,
        (error: unknown) => error instanceof GrpcError && error.code,
      )
    }
    const { UNIMPLEMENTED } = statusCodes
    for (const { pod, remaining, reserved, checked } of [
      { pod: old, remaining: limit - 2, reserved: UNIMPLEMENTED, checked: UNIMPLEMENTED },
      { pod: today, remaining: limit, reserved: 'reservation', checked: 'OK' },
    ]) {
      const { shouldRateLimit, checkRateLimit } = callRateLimit(t, pod.grpcPort)
      const one = { domain: 'shop', descriptors: [{ ...descriptor, hitsAddend: 1n }] }
      await shouldRateLimit(one)
      const back = { ...descriptor, hitsAddend: 1n, isNegativeHits: true }
      const { statuses } = await shouldRateLimit({ domain: 'shop', descriptors: [back] })
      assert.equal(statuses[0]?.limitRemaining, remaining)
      assert.equal(await reserveAt(pod.grpcPort), reserved)
      const check = checkRateLimit(one).then(
        () => 'OK',
        (error: unknown) => error instanceof GrpcError && error.code,
      )
      assert.equal(await check, checked)
    }
  })

  it('they admit exactly the limit over memcached', async t => {
    if (requireProgram(t, 'memcached') === false) return
    const memcached = await startMemcached()
    t.after(() => memcached.stop())
    const pods = await startBoth(t, { BACKEND_TYPE: 'memcache', MEMCACHE_HOST_PORT: memcached.address })
    await admitTogether(pods)
    await takeOver(pods)
  })
})
