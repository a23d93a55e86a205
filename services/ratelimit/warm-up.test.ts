import assert from 'node:assert/strict'
import { test } from 'node:test'
import { readSettings } from '@tollway/chassis/settings.ts'
import { rateLimitFiles, userLimit } from '../../test/support/rate-limit-files.ts'
import { startRateLimit } from '../../test/support/rate-limit-process.ts'
import { settings } from './settings.ts'
import { warmUp } from './warm-up.ts'

test('every call of the warm-up is answered', async () => {
  const read = readSettings(settings, {}, () => '')
  assert.ok('value' in read)
  assert.equal(await warmUp(read.value), 40)
})

test('a process warms up before it takes calls, and counts nothing of it', async t => {
  const service = await startRateLimit(t, {
    ...rateLimitFiles(userLimit('1000/day')).env,
    BACKEND_TYPE: 'memory',
    USE_PUSHSTATS: 'false',
    LOG_LEVEL: 'debug',
  })
  await service.serves()
  assert.match(service.program.output(), /answer warm-up calls" calls=40\n.* msg="start service" /)
  const stats = await service.stats()
  assert.equal(stats['ratelimit_server.ShouldRateLimit.total_requests'], 0)
  assert.equal(stats['ratelimit.service.rate_limit.warm-up.key.total_hits'], undefined)
})
