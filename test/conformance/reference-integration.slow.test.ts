import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { test } from 'node:test'
import { missingProgram } from '../support/require-server.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { builtTests } from './reference-integration/paths.ts'
import { openReferenceTests } from './reference-integration/play.ts'

/**
 * One or two tests of each group of the reference's integration tests, since each of them sleeps for two
 * seconds. The command `node test/conformance/reference-integration/run.ts` runs all of them.
 */
const chosen: readonly string[] = [
  '^TestBasicConfig$/^WithPerSecondRedisWithLocalCache$',
  '^TestBasicConfig_ExtraTags$',
  '^TestXdsProviderBasicConfig$/^WithPerSecondRedis$',
  '^TestBasicTLSConfig$/^WithPerSecondRedisTLS$',
  '^TestBasicTLSConfig$/^WithoutPerSecondRedisTLSWithClientCert$',
  '^TestBasicAuthConfig$/^WithPerSecondRedisAuth$',
  '^TestBasicAuthConfigWithRedisCluster$/^WithPerSecondRedisAuth$',
  '^TestBasicAuthConfigWithRedisSentinel$/^WithPerSecondRedisAuth$',
  '^TestBasicReloadConfig$/^ReloadWithoutWatchRoot$',
  '^TestXdsProviderBasicConfigReload$',
  '^TestBasicConfigMemcache$/^Memcache$',
  '^TestMultiNodeMemcache$',
  '^Test_mTLS$',
  '^TestReloadGRPCServerCerts$',
  '^TestShareThreshold$',
]

test("the reference's integration tests pass against the service", { timeout: 240_000 }, async t => {
  if (!existsSync(builtTests)) {
    // Compiling them needs Go, which not every machine has, so their absence is never a failure.
    const reason = 'not built: node test/conformance/reference-integration/build.ts'
    process.stderr.write(`SKIPPED: the reference's integration tests are ${reason}\n`)
    return t.skip(reason)
  }
  for (const program of ['redis-server', 'memcached', 'openssl']) {
    const missing = missingProgram(program)
    if (missing !== false) return t.skip(missing)
  }
  const tests = await openReferenceTests(temporaryFolder('reference-integration'))
  t.after(tests.stop)
  const { verdicts, output } = await tests.play(chosen.join('|'))
  const failed = verdicts.filter(({ result }) => result !== 'PASS').map(({ name }) => name)
  assert.deepEqual(failed, [], output)
  for (const pattern of chosen) {
    const levels = pattern.split('/').map(level => new RegExp(level))
    const played = verdicts.some(({ name }) => {
      const parts = name.split('/')
      return levels.every((level, index) => level.test(parts[index] ?? ''))
    })
    assert.ok(played, `${pattern} names no test`)
  }
})
