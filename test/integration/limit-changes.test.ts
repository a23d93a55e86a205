import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type RateLimitResponse, RateLimitResponse_Code } from '@tollway/proto/envoy/service/ratelimit/v3/rls'
import { RateLimitAlgorithm, RateLimitUnit } from '@tollway/proto/ratelimit/config/ratelimit/v3/rls_conf'
import { encodeDomain, encodeResponse, type LimitFeed, startLimitFeed } from '../support/limit-feed.ts'
import { callRateLimit, startRateLimit } from '../support/rate-limit-process.ts'
import { startRedis } from '../support/redis-server.ts'
import { missingProgram } from '../support/require-server.ts'
import { waitFor } from '../support/wait-for.ts'

const { SLIDING_WINDOW, TOKEN_BUCKET } = RateLimitAlgorithm
const { MINUTE, HOUR, DAY } = RateLimitUnit

/**
 * The limits are never reached. Each version has a number of its own, by which answers name their version.
 */
const most = 1_000_000
const versions = [
  { limit: { unit: DAY } },
  { limit: { unit: MINUTE, algorithm: TOKEN_BUCKET, burst: most } },
  { limit: { unit: HOUR, algorithm: SLIDING_WINDOW } },
  { limit: { unit: HOUR, algorithm: TOKEN_BUCKET, burst: most }, second: { unit: DAY } },
  { limit: { unit: MINUTE, algorithm: SLIDING_WINDOW, unitMultiplier: 15 } },
  { limit: { unit: DAY }, second: { unit: HOUR, algorithm: SLIDING_WINDOW } },
]
const changes = 3 * versions.length
const keys = ['first', 'second'] as const
const processes = 2
const callsAtOnce = 30

function send(feed: LimitFeed, change: number): void {
  const { limit, second } = versions[change % versions.length] ?? assert.fail()
  const first = { ...limit, requestsPerUnit: most + change, name: `v${change}` }
  const descriptors = keys.map(key =>
    second === undefined
      ? { key, rateLimit: first }
      : // The larger limit never has the fewest remaining hits, so answers report the first one.
        { key, limits: [first, { ...second, requestsPerUnit: 4 * most, name: 'larger' }] },
  )
  feed.send(encodeResponse(`${change}`, [encodeDomain({ name: 'shop', domain: 'shop', descriptors })]))
}

/** Returns the version that made the decision. Throws if two versions had a part in it. */
function findVersion({ overallCode, statuses }: RateLimitResponse): number {
  assert.equal(overallCode, RateLimitResponse_Code.OK)
  assert.equal(statuses.length, keys.length)
  const [change = -1, ...others] = statuses.map(({ currentLimit, limitRemaining }) => {
    const number = Number(currentLimit?.name.slice(1))
    const { limit } = versions[number % versions.length] ?? assert.fail(`a limit ${currentLimit?.name}`)
    assert.equal(currentLimit?.requestsPerUnit, most + number)
    // The units of answers have the numbers of the configuration's.
    assert.equal(currentLimit?.unit as number, limit.unit as number)
    assert.ok(limitRemaining < most + number && limitRemaining > most / 2, `${limitRemaining} remain`)
    return number
  })
  for (const other of others) assert.equal(other, change, 'one decision by two versions')
  return change
}

test('changes of algorithm, window and limits under load cause no error and no decision by two versions', {
  skip: missingProgram('redis-server'),
}, async t => {
  const [redis, feed] = await Promise.all([startRedis(), startLimitFeed()])
  t.after(async () => {
    await Promise.all([redis.stop(), feed.stop()])
  })
  send(feed, 0)
  const env = { ...feed.settings, KVSTORE_SOCKET_TYPE: 'tcp', KVSTORE_URL: `127.0.0.1:${redis.port}` }
  const services = await Promise.all(Array.from({ length: processes }, () => startRateLimit(t, env)))
  await Promise.all(services.map(service => service.serves()))
  const request = { domain: 'shop', descriptors: keys.map(key => ({ entries: [{ key, value: 'x' }] })) }
  const seen = services.map(() => ({ newest: 0, calls: 0 }))
  let isOver = false

  const load = services.flatMap(({ grpcPort }, index) => {
    const { shouldRateLimit } = callRateLimit(t, grpcPort)
    const own = seen[index] ?? assert.fail()
    return Array.from({ length: callsAtOnce }, async () => {
      while (!isOver) {
        const change = findVersion(await shouldRateLimit(request))
        own.newest = Math.max(own.newest, change)
        own.calls += 1
      }
    })
  })
  const changed = (async () => {
    for (let change = 1; change < changes; change++) {
      send(feed, change)
      await waitFor(`version ${change}`, () => seen.every(({ newest }) => newest === change))
    }
  })().finally(() => {
    isOver = true
  })
  await Promise.all([changed, ...load])
  const rejected = feed.requests.filter(({ errorDetail }) => errorDetail !== undefined)
  assert.deepEqual(rejected, [])
  t.diagnostic(`${seen.reduce((sum, { calls }) => sum + calls, 0)} calls, ${changes} versions`)
})
