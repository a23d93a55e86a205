import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { startMemcached } from '../support/memcached-server.ts'
import { startRateLimit } from '../support/rate-limit-process.ts'
import { startRedis } from '../support/redis-server.ts'
import { requireProgram } from '../support/require-server.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { manifest, startTollway, type Tollway } from '../support/tollway.ts'
import { waitFor } from '../support/wait-for.ts'

const plain = manifest('plain', 'plain', { user: '2/day' })
const several = manifest('several', 'several', { user: '2/day' }).replace(
  /rateLimit: (\{.*?\})/,
  'limits: [$1, {unit: hour, requestsPerUnit: 9}]',
)
const bucket = manifest('bucket', 'bucket', { user: '2/day' }).replace(
  'unit: day',
  'unit: day, algorithm: TokenBucket',
)

/** Resolves with the message of the condition Programmed once a process has rejected the resource. */
function waitForRejection({ status }: Tollway, wanted: string): Promise<string> {
  return waitFor(`a process to reject ${wanted}`, () => {
    const found = status().resources.find(({ name }) => name === wanted)
    const programmed = found?.conditions.find(({ type }) => type === 'Programmed')
    return programmed?.reason === 'Refused' && programmed.message
  })
}

async function callThreeTimes(tollway: Tollway, domain: string): Promise<readonly number[]> {
  const codes: number[] = []
  for (let call = 0; call < 3; call += 1) codes.push(await tollway.ask(domain, 'user', 'alice'))
  return codes
}

test('a status has the cause that CACHE_KEY_PREFIX has braces, and other resources are enforced', async t => {
  const files = { 'plain.yaml': plain, 'several.yaml': several, 'bucket.yaml': bucket }
  const tollway = await startTollway(t, files, ['--env', 'CACHE_KEY_PREFIX=a{b}:'])
  assert.match(
    await waitForRejection(tollway, 'several'),
    /^ratelimit-0 rejected it: it needs limits, which CACHE_KEY_PREFIX with braces does not allow; remove the braces/,
  )
  for (const domain of ['plain', 'bucket']) {
    assert.deepEqual(await callThreeTimes(tollway, domain), [200, 200, 429], domain)
  }
})

test('a status has the command that a Redis login rejects, and fixed windows continue', async t => {
  if (!requireProgram(t, 'redis-server')) return
  const redis = await startRedis()
  t.after(() => redis.stop())
  await redis.command('ACL', 'SETUSER', 'plain', 'on', '>pw', '~*', '+@all', '-@scripting')
  const config = join(temporaryFolder('tollway-config'), 'config.yaml')
  writeFileSync(config, `redisUrl: redis://plain:pw@127.0.0.1:${redis.port}\n`, { mode: 0o600 })
  const files = { 'plain.yaml': plain, 'bucket.yaml': bucket }
  const tollway = await startTollway(t, files, ['--config', config, '--env', 'BACKEND_DEADLINE=5s'])
  assert.match(
    await waitForRejection(tollway, 'bucket'),
    /it needs algorithms, which Redis rejects: NOPERM.*'evalsha' command/,
  )
  assert.deepEqual(await callThreeTimes(tollway, 'plain'), [200, 200, 429])
})

test('a status has what a process with memcached rejects, although the operator does not run it', async t => {
  if (!requireProgram(t, 'memcached')) return
  const memcached = await startMemcached()
  t.after(() => memcached.stop())
  const tollway = await startTollway(t, { 'plain.yaml': plain, 'bucket.yaml': bucket })
  await tollway.ready()
  const own = await startRateLimit(t, {
    BACKEND_TYPE: 'memcache',
    MEMSTORE_HOST_PORT: `127.0.0.1:${memcached.port}`,
    CONFIG_TYPE: 'GRPC_XDS_SOTW',
    CONFIG_GRPC_XDS_SERVER_URL: `127.0.0.1:${tollway.feedPort}`,
    CONFIG_GRPC_XDS_NODE_METADATA: 'uid:own,pod:own-0',
  })
  assert.match(
    await waitForRejection(tollway, 'bucket'),
    /^own-0 rejected it: it needs algorithms, which memcached cannot count; use BACKEND_TYPE redis or memory/,
  )
  await own.serves()
  assert.deepEqual(await callThreeTimes(tollway, 'bucket'), [200, 200, 429], 'the process of the operator')
  await own.program.end('SIGTERM')
  await tollway.ready()
})
