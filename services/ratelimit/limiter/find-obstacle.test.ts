import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Feature } from '../rules/fields.ts'
import { findObstacle } from './find-obstacle.ts'

const redis = { backendType: 'redis', redisType: 'SINGLE', cacheKeyPrefix: '' } as const

const cases: readonly (readonly [Partial<Parameters<typeof findObstacle>[0]>, readonly Feature[], string])[] =
  [
    [{}, ['windows', 'calendar', 'headers'], ''],
    [{ backendType: 'memcache' }, ['windows', 'countRejected'], ''],
    [{ backendType: 'memory' }, ['algorithms', 'limits', 'allOrNothing'], ''],
    [
      { backendType: 'memcache' },
      ['windows', 'algorithms'],
      'it needs algorithms, which memcached cannot count; use BACKEND_TYPE redis or memory',
    ],
    [
      { backendType: 'memcache' },
      ['concurrency'],
      'it needs concurrency, which memcached cannot count; use BACKEND_TYPE redis or memory',
    ],
    [{ backendType: 'memory' }, ['quota'], ''],
    [
      { backendType: 'memcache' },
      ['quota'],
      'it needs quota, which memcached cannot count; use BACKEND_TYPE redis or memory',
    ],
    [{}, ['quota'], "it needs quota, which Redis rejects: NOPERM 'evalsha'"],
    [
      { cacheKeyPrefix: '{a}' },
      ['limits'],
      'it needs limits, which CACHE_KEY_PREFIX with braces does not allow; remove the braces',
    ],
    [
      { redisType: 'cluster' },
      ['allOrNothing'],
      'it needs allOrNothing, which a Redis Cluster cannot count, since its keys are on several masters',
    ],
    [{}, ['algorithms'], "it needs algorithms, which Redis rejects: NOPERM 'evalsha'"],
  ]

test('an obstacle names the feature and the reason, and features of windows have none', async () => {
  const counters = { healthy: true, onHealth() {}, findObstacle: () => Promise.resolve("NOPERM 'evalsha'") }
  for (const [settings, features, expected] of cases) {
    assert.equal(await findObstacle({ ...redis, ...settings }, counters, features), expected)
  }
})
