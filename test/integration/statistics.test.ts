import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { createAuthority } from '../../services/grpc/server/testing/contract/certificates.ts'
import { startMemcached } from '../support/memcached-server.ts'
import { rateLimitFiles } from '../support/rate-limit-files.ts'
import { type RateLimitProcess, startRateLimit } from '../support/rate-limit-process.ts'
import { startRedis } from '../support/redis-server.ts'
import { requireProgram } from '../support/require-server.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

/**
 * Every counter and gauge that envoyproxy/ratelimit or this service names, by the setting that enables it.
 * `<limit>` stands for a limit in the configuration. Timers are for sinks, and `ratelimit.go.*`, about the Go
 * runtime, has no counterpart.
 */
const names = {
  always: `
    ratelimit.service.config_load_success
    ratelimit.service.config_load_error
    ratelimit.service.global_shadow_mode
    ratelimit.service.call.should_rate_limit.redis_error
    ratelimit.service.call.should_rate_limit.service_error
    ratelimit.service.rate_limit.<limit>.total_hits
    ratelimit.service.rate_limit.<limit>.over_limit
    ratelimit.service.rate_limit.<limit>.near_limit
    ratelimit.service.rate_limit.<limit>.within_limit
    ratelimit.service.rate_limit.<limit>.over_limit_with_local_cache
    ratelimit.service.rate_limit.<limit>.shadow_mode
    ratelimit.service.rate_limit.unknown.domain_not_found
    ratelimit_server.ShouldRateLimit.total_requests`,
  files: `
    runtime.load_attempts
    runtime.load_failures
    runtime.num_values`,
  tls: `
    certs.load_attempts
    certs.load_failures
    certs.num_values`,
  redis: `
    ratelimit.redis_pool.cx_active
    ratelimit.redis_pool.cx_total
    ratelimit.redis_pool.cx_local_close
    ratelimit.redis_pool.breaker_open
    ratelimit.redis_pool.breaker_opened
    ratelimit.backend.failing`,
  perSecond: `
    ratelimit.redis_per_second_pool.cx_active
    ratelimit.redis_per_second_pool.cx_total
    ratelimit.redis_per_second_pool.cx_local_close
    ratelimit.redis_per_second_pool.breaker_open
    ratelimit.redis_per_second_pool.breaker_opened`,
  memcached: `
    ratelimit.memcache.multiget.__code=success
    ratelimit.memcache.multiget.__code=error
    ratelimit.memcache.increment.__code=success
    ratelimit.memcache.increment.__code=miss
    ratelimit.memcache.increment.__code=error
    ratelimit.memcache.add.__code=success
    ratelimit.memcache.add.__code=not_stored
    ratelimit.memcache.add.__code=error
    ratelimit.memcache.keys_requested
    ratelimit.memcache.keys_found
    ratelimit.memcache.breaker_open
    ratelimit.memcache.breaker_opened
    ratelimit.backend.failing`,
  localCache: `
    ratelimit.localcache.evacuateCount
    ratelimit.localcache.expiredCount
    ratelimit.localcache.entryCount
    ratelimit.localcache.averageAccessTime
    ratelimit.localcache.hitCount
    ratelimit.localcache.missCount
    ratelimit.localcache.lookupCount
    ratelimit.localcache.overwriteCount`,
}

const limits = `
domain: shop
descriptors:
  - {key: user, rate_limit: {unit: day, requests_per_unit: 1}}
  - {key: call, rate_limit: {unit: second, requests_per_unit: 1000000}}
`
const configured = ['shop.user', 'shop.call']

function listNames(...parts: readonly (keyof typeof names)[]): readonly string[] {
  const listed = parts.flatMap(part => names[part].trim().split(/\s+/))
  return listed.flatMap(name => configured.map(limit => name.replace('<limit>', limit)))
}

/** Makes calls that exceed each limit, and one for an unknown domain. */
async function exercise(service: RateLimitProcess): Promise<void> {
  await service.serves()
  for (const user of ['alice', 'alice', 'alice']) await service.ask('shop', 'user', user)
  assert.equal(await service.ask('shop', 'user', 'alice'), 429)
  assert.equal(await service.ask('shop', 'call', 'any'), 200)
  assert.equal(await service.ask('unknown', 'user', 'alice'), 200)
}

async function readStats(t: TestContext, env: Readonly<Record<string, string>>) {
  const settings = { ...rateLimitFiles(limits).env, BACKEND_DEADLINE: '5s', DISABLE_STATS: 'true' }
  const service = await startRateLimit(t, { ...settings, ...env })
  await exercise(service)
  return await service.stats()
}

function assertHas(stats: Readonly<Record<string, number>>, parts: readonly (keyof typeof names)[]): void {
  const wanted = listNames(...parts)
  const missing = wanted.filter(name => !Object.hasOwn(stats, name))
  assert.deepEqual(missing, [], `of ${Object.keys(stats).length} statistics`)
  const strange = Object.keys(stats).filter(name => !wanted.includes(name))
  assert.deepEqual(strange, [], 'the service has no name that the reference does not have')
}

test('/stats has every name, with two Redis, a local cache and certificates', async t => {
  if (!requireProgram(t, 'redis-server')) return
  const [main, perSecond] = await Promise.all([startRedis(), startRedis()])
  t.after(() => Promise.all([main.stop(), perSecond.stop()]))
  const folder = temporaryFolder('statistics')
  const { cert, key } = createAuthority('service').issue('service.test')
  writeFileSync(join(folder, 'cert'), cert)
  writeFileSync(join(folder, 'key'), key)
  const stats = await readStats(t, {
    KVSTORE_SOCKET_TYPE: 'tcp',
    KVSTORE_URL: `127.0.0.1:${main.port}`,
    KVSTORE_PERSECOND: 'true',
    KVSTORE_PERSECOND_SOCKET_TYPE: 'tcp',
    KVSTORE_PERSECOND_URL: `127.0.0.1:${perSecond.port}`,
    LOCAL_CACHE_SIZE_IN_BYTES: '1000000',
    GRPC_SERVER_USE_TLS: 'true',
    GRPC_SERVER_TLS_CERT: join(folder, 'cert'),
    GRPC_SERVER_TLS_KEY: join(folder, 'key'),
  })
  assertHas(stats, ['always', 'files', 'tls', 'redis', 'perSecond', 'localCache'])
  const shown = [
    'ratelimit.redis_pool.cx_active',
    'ratelimit.redis_per_second_pool.cx_total',
    'ratelimit.localcache.hitCount',
    'ratelimit.service.rate_limit.shop.user.over_limit_with_local_cache',
    'ratelimit.service.rate_limit.shop.call.within_limit',
    'ratelimit.service.rate_limit.unknown.domain_not_found',
    'runtime.num_values',
    'certs.num_values',
  ]
  assert.deepEqual(
    shown.map(name => stats[name]),
    [1, 1, 2, 2, 1, 1, 1, 2],
  )
  const age = Date.now() / 1000 - (stats['ratelimit.localcache.averageAccessTime'] ?? 0)
  assert.ok(Math.abs(age) < 60, `the entries were noted ${age} s ago`)
})

test('/stats has every name, with memcached', async t => {
  if (!requireProgram(t, 'memcached')) return
  const memcached = await startMemcached()
  t.after(() => memcached.stop())
  const env = { BACKEND_TYPE: 'memcache', MEMSTORE_HOST_PORT: memcached.address }
  const stats = await readStats(t, env)
  assertHas(stats, ['always', 'files', 'memcached'])
  const shown = ['increment.__code=success', 'add.__code=success', 'multiget.__code=success']
  assert.deepEqual(
    shown.map(name => stats[`ratelimit.memcache.${name}`]),
    // The counted read is the one with which the service learns that the backend answers.
    [5, 2, 1],
  )
  const later = await readStats(t, { ...env, CACHE_KEY_PREFIX: 'later', MEMSTORE_ASYNC_INCREMENT: 'true' })
  const counted = ['multiget.__code=success', 'keys_requested', 'keys_found']
  assert.deepEqual(
    counted.map(name => later[`ratelimit.memcache.${name}`]),
    [6, 6, 3],
  )
})
