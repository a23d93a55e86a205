import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { RateLimitCounting, RateLimitUnit } from '@tollway/proto/ratelimit/config/ratelimit/v3/rls_conf'
import { okAnswer, overAnswer } from '../faults/load/answer.ts'
import { countFlatOut, encodeCall } from '../faults/load/calls.ts'
import { type FaultLoad, withFaultLoad } from '../faults/load/fault-load.ts'
import { domain } from '../faults/setups.ts'
import { encodeDomain, encodeResponse, startLimitFeed } from '../support/limit-feed.ts'
import { type RateLimitProcess, startRateLimit } from '../support/rate-limit-process.ts'
import { type RedisServer, startRedis } from '../support/redis-server.ts'
import { missingProgram } from '../support/require-server.ts'
import { waitFor } from '../support/wait-for.ts'

const limit = 12_000
const connections = 50
const callsPerSecond = 2_000
const loadMs = 1_500
const minuteMs = 60_000
/** A case ends before this, so that it is in one window. */
const caseMs = 35_000
const graceMs = 15_000

/** What one process may have taken at most: the bound that `tollway try` says. */
const leaseBound = limit / 16

const body = encodeCall('user', 'alice')

interface Case {
  readonly redis: RedisServer
  readonly services: readonly [RateLimitProcess, RateLimitProcess]
  readonly load: FaultLoad
}

/** Two processes with leases of one key, called over many connections, and the calls that they admit together. */
async function admitted(t: TestContext, fault: (parts: Case) => Promise<void>) {
  const redis = await startRedis()
  t.after(() => redis.stop())
  const feed = await startLimitFeed()
  t.after(() => feed.stop())
  const rateLimit = {
    unit: RateLimitUnit.MINUTE,
    requestsPerUnit: limit,
    counting: RateLimitCounting.LEASED,
  }
  const rule = { key: 'user', rateLimit }
  feed.send(encodeResponse('1', [encodeDomain({ name: domain, domain, descriptors: [rule] })]))
  const backend = { BACKEND_TYPE: 'redis', KVSTORE_SOCKET_TYPE: 'tcp', KVSTORE_URL: redis.url }
  const env = { ...backend, ...feed.settings, BACKEND_DEADLINE: '250ms', DRAIN_DELAY: '500ms' }
  const start = async () => {
    const service = await startRateLimit(t, env)
    await service.serves()
    return service
  }
  const services = await Promise.all([start(), start()] as const)
  const isEarly = () => Date.now() % minuteMs < minuteMs - caseMs
  await waitFor('a minute that lasts long enough', isEarly, caseMs + 1_000)
  const startedMinute = Math.floor(Date.now() / minuteMs)
  const ports = services.map(({ grpcPort }) => grpcPort)
  const plan = { ports, connections, callsPerSecond, bodyOf: () => body }
  const record = await withFaultLoad(plan, async load => {
    await pause(loadMs)
    for (const service of services) {
      await waitFor('a lease', async () => (await service.stats())['ratelimit.leases.open'] === 1)
    }
    await fault({ redis, services, load })
    return load.stop()
  })
  const of = (outcome: string) => record.calls.filter(call => call.outcome === outcome).length
  const ok = of(okAnswer)
  assert.ok(ok > 0 && ok < limit, `${ok} of ${limit} while the processes run`)
  const rest = await countFlatOut([services[1].grpcPort], 4, limit, body)
  assert.equal(rest.failed, 0, rest.failure)
  assert.equal(Math.floor(Date.now() / minuteMs), startedMinute, 'the case has ended in its window')
  const unknown = record.calls.length - ok - of(overAnswer)
  t.diagnostic(`${ok} and then ${rest.ok} of ${limit} are admitted, ${unknown} calls failed`)
  return { total: ok + rest.ok, unknown }
}

const options = { skip: missingProgram('redis-server') }

test(
  'a process that gets SIGTERM under load returns its leases, and nothing of the limit is lost',
  options,
  async t => {
    const { total, unknown } = await admitted(t, async ({ services: [ending] }) => {
      assert.equal(await ending.program.end('SIGTERM'), 0)
      await pause(loadMs / 2)
    })
    assert.equal(unknown, 0)
    assert.equal(total, limit)
  },
)

test('a process that is killed loses at most its lease', options, async t => {
  const { total, unknown } = await admitted(t, async ({ services: [killed] }) => {
    await killed.program.end('SIGKILL')
    await pause(loadMs / 2)
  })
  assert.ok(total <= limit, `${total} of ${limit}`)
  assert.ok(total >= limit - leaseBound - unknown, `${total} of ${limit}, ${unknown} calls are unknown`)
})

test(
  'a process that gets SIGTERM while Redis is paused ends in time, and no more than the limit is admitted',
  options,
  async t => {
    const { total, unknown } = await admitted(t, async ({ redis, services: [ending] }) => {
      process.kill(redis.pid, 'SIGSTOP')
      const stoppedMs = performance.now()
      try {
        assert.equal(await ending.program.end('SIGTERM'), 0)
      } finally {
        process.kill(redis.pid, 'SIGCONT')
      }
      const tookMs = performance.now() - stoppedMs
      assert.ok(tookMs < graceMs, `it took ${tookMs} ms`)
      t.diagnostic(`it ended after ${Math.round(tookMs)} ms`)
      await pause(loadMs / 2)
    })
    assert.ok(total <= limit, `${total} of ${limit}`)
    assert.ok(total >= limit - 2 * leaseBound - unknown, `${total} of ${limit}, ${unknown} calls are unknown`)
  },
)
