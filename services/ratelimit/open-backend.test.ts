import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { silentLog } from '@tollway/chassis/log/log.ts'
import { readSettings } from '@tollway/chassis/settings.ts'
import { makeCertificate } from '../../test/support/certificate.ts'
import { freePorts } from '../../test/support/free-ports.ts'
import { startRedis } from '../../test/support/redis-server.ts'
import { missingProgram } from '../../test/support/require-server.ts'
import { temporaryFolder } from '../../test/support/temporary-folder.ts'
import { waitFor } from '../../test/support/wait-for.ts'
import { unreadStats } from './counters/backend-stats.ts'
import { hit } from './counters/testing/open-redis-counters.ts'
import { openBackend } from './open-backend.ts'
import { type Settings, settings as settingsOfService } from './settings.ts'

const settings: Settings = {
  ...readDefaults(),
  backendDeadlineMs: 5_000,
  redisSocketType: 'tcp',
  redisUrl: '127.0.0.1:1',
}

function readDefaults(): Settings {
  const found = readSettings(settingsOfService, {}, () => '')
  if ('problems' in found) throw new Error(JSON.stringify(found.problems))
  return found.value
}

test('counters in memory need no other setting', async () => {
  const stopIncrementWhenOverLimit = true
  const counters = openBackend(
    { ...settings, backendType: 'memory', stopIncrementWhenOverLimit },
    unreadStats,
    silentLog,
  )
  const batch = [hit('a', 2, 60, 1), hit('b', 1, 60, 1)]
  assert.deepEqual(await counters.add(batch), [2, 0])
  await counters.close()
})

test('an unusable value is reported with its setting', () => {
  const table: readonly [Partial<Settings>, RegExp][] = [
    [{ redisUrl: 'secret' }, /^KVSTORE_URL: the address of Redis must be host:port/],
    [{ redisType: 'sentinel', redisUrl: 'secret' }, /^KVSTORE_URL: Expected master name and a list of urls/],
    [{ redisTls: true, redisTlsCaFile: '/none' }, /KVSTORE_TLS_CACERT: \/none: /],
    [{ redisTls: true, redisTlsCertFile: '/none' }, /KVSTORE_TLS_CLIENT_CERT: \/none: /],
  ]
  for (const [part, problem] of table) {
    assert.throws(
      () => openBackend({ ...settings, ...part }, unreadStats, silentLog),
      error => {
        assert.match((error as Error).message, problem)
        assert.doesNotMatch((error as Error).message, /secret/)
        return true
      },
    )
  }
})

describe('counters opened from settings', {
  skip: missingProgram('redis-server') || missingProgram('openssl'),
}, () => {
  test('limits per second have a separate Redis with separate settings', async t => {
    const folder = temporaryFolder('tollway-open')
    const { certFile, keyFile } = await makeCertificate(folder, 'redis', 'DNS:elsewhere.test')
    const [port = 0] = await freePorts(1)
    const secure = ['--tls-port', `${port}`, '--tls-cert-file', certFile, '--tls-key-file', keyFile]
    const [main, small] = await Promise.all([
      startRedis(),
      startRedis([...secure, '--tls-ca-cert-file', certFile]),
    ])
    t.after(() => Promise.all([main.stop(), small.stop()]))
    const pools = new Map<string, () => number>()
    const counters = openBackend(
      {
        ...settings,
        redisUrl: main.socketPath,
        redisPerSecond: true,
        redisPerSecondUrl: `127.0.0.1:${port}`,
        redisPerSecondTls: true,
        redisTlsCaFile: certFile,
        redisTlsCertFile: certFile,
        redisTlsKeyFile: keyFile,
        redisTlsSkipHostnameVerification: true,
      },
      { ...unreadStats, gauge: (name, read) => pools.set(name, read) },
      silentLog,
    )
    t.after(() => counters.close())
    await waitFor('both to answer', () => counters.problem === '')
    assert.deepEqual(await counters.add([hit('a'), { ...hit('b', 2), perSecond: true }]), [1, 2])
    assert.deepEqual([await main.command('GET', 'a'), await small.command('GET', 'b')], ['1', '2'])
    assert.deepEqual(
      [...pools].map(([name, read]) => `${name} ${read()}`),
      [
        'ratelimit.redis_pool.cx_active 1',
        'ratelimit.redis_pool.breaker_open 0',
        'ratelimit.redis_per_second_pool.cx_active 1',
        'ratelimit.redis_per_second_pool.breaker_open 0',
      ],
    )
  })

  test('connections use certificate files that were replaced, without a restart', async t => {
    const folder = temporaryFolder('tollway-renewed')
    const make = (name: string) => makeCertificate(folder, name, 'DNS:localhost,IP:127.0.0.1')
    const { certFile, keyFile } = await make('redis')
    const [port = 0] = await freePorts(1)
    const redis = await startRedis([
      ...['--tls-port', `${port}`, '--tls-cert-file', certFile, '--tls-key-file', keyFile],
      ...['--tls-ca-cert-file', certFile, '--tls-auth-clients', 'yes'],
    ])
    t.after(() => redis.stop())
    const files = { redisTlsCaFile: certFile, redisTlsCertFile: certFile, redisTlsKeyFile: keyFile }
    const redisUrl = `127.0.0.1:${port}`
    const counters = openBackend({ ...settings, ...files, redisUrl, redisTls: true }, unreadStats, silentLog)
    t.after(() => counters.close())
    await waitFor('the first answer', () => counters.problem === '')
    await redis.kill('SIGKILL')
    await waitFor('the loss', () => !counters.healthy)
    await make('redis') // another authority in the same files
    await redis.restart()
    await waitFor('the next answer', () => counters.healthy, 20_000)
    assert.deepEqual(await counters.add([hit('renewed')]), [1])
  })
})
