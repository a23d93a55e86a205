import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { startRedis } from '../../../test/support/redis-server.ts'
import { missingProgram } from '../../../test/support/require-server.ts'
import { waitFor } from '../../../test/support/wait-for.ts'
import { BackendHealth, ErrorWatch, errorWatchLimits } from './backend-health.ts'
import { createMemoryCounters } from './memory.ts'
import { createRedisCounters } from './redis/redis.ts'

const clock = { nowMs: () => 0, monotonicMs: () => 0 }

/** Creates counters whose connection the test opens and closes. */
function backend() {
  const listeners: ((healthy: boolean) => void)[] = []
  const counters = {
    healthy: false,
    problem: 'it is away',
    add: () => Promise.resolve([0, 0]),
    onHealth: (listener: (healthy: boolean) => void) => void listeners.push(listener),
    become(healthy: boolean) {
      counters.healthy = healthy
      counters.problem = healthy ? '' : 'it is lost'
      for (const listener of listeners) listener(healthy)
    },
  }
  return counters
}

function open(counters: ConstructorParameters<typeof BackendHealth>[0], checkActiveConnection: boolean) {
  let nowMs = 0
  const errors = new ErrorWatch({ nowMs: () => 0, monotonicMs: () => nowMs })
  const health = new BackendHealth(counters, errors, checkActiveConnection, '')
  const changes: boolean[] = []
  health.onHealth(healthy => changes.push(healthy))
  return { health, errors, changes, elapse: (ms: number) => (nowMs += ms) }
}

const turn = () => new Promise(resolve => setImmediate(resolve))

test('a lost backend makes the service unhealthy only with checkActiveConnection', async () => {
  for (const [checkActiveConnection, expected] of [
    [false, [true]],
    [true, [true, false, true]],
  ] as const) {
    const counters = backend()
    const { health, changes } = open(counters, checkActiveConnection)
    assert.equal(health.problem, 'it is away')
    counters.become(true)
    await turn()
    assert.equal(health.problem, '')
    counters.become(false)
    assert.equal(health.problem, checkActiveConnection ? 'it is lost' : '')
    counters.become(true)
    assert.deepEqual(changes, expected)
  }
})

test('consecutive errors make the service unhealthy only with checkActiveConnection', async () => {
  for (const checkActiveConnection of [false, true]) {
    const counters = backend()
    const { health, errors, changes, elapse } = open(counters, checkActiveConnection)
    counters.become(true)
    await turn()
    for (let call = 0; call < errorWatchLimits.failures; call += 1) errors.failed(new Error('READONLY'))
    assert.equal(health.problem, '', 'all errors came at once')
    elapse(errorWatchLimits.failingMs)
    errors.failed(new Error('READONLY'))
    assert.equal(health.problem, checkActiveConnection ? 'READONLY' : '')
    errors.succeeded()
    assert.equal(health.problem, '')
    assert.deepEqual(changes, checkActiveConnection ? [true, false, true] : [true])
  }
})

test('one success among errors resets the count', () => {
  const { health, errors, elapse } = open({ ...backend(), healthy: true, add: () => [0, 0] }, true)
  for (let call = 0; call < 100; call += 1) {
    elapse(errorWatchLimits.failingMs)
    if (call % errorWatchLimits.failures === 0) errors.succeeded()
    else errors.failed(new Error('OOM'))
    assert.equal(health.problem, '')
  }
})

test('an instance without calls becomes healthy again after a while', t => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const { health, errors, elapse } = open({ ...backend(), healthy: true, add: () => [0, 0] }, true)
  const pass = (ms: number) => {
    elapse(ms)
    t.mock.timers.tick(ms)
  }
  for (let call = 0; call < errorWatchLimits.failures; call += 1) errors.failed(new Error('OOM'))
  pass(errorWatchLimits.failingMs)
  errors.failed(new Error('OOM'))
  pass(errorWatchLimits.idleMs - 1)
  errors.failed(new Error('OOM'))
  pass(errorWatchLimits.idleMs - 1)
  assert.equal(health.problem, 'OOM')
  pass(1)
  assert.equal(health.problem, '')
})

test('counters in memory are healthy at once', () => {
  assert.equal(open(createMemoryCounters({ clock }), true).health.healthy, true)
})

describe('a Redis user with access to one prefix', { skip: missingProgram('redis-server') }, () => {
  test('the service is healthy with that prefix, and not with another one', async t => {
    const redis = await startRedis()
    t.after(() => redis.stop())
    const commands = ['+ping', '+get', '+incrby', '+expire']
    await redis.command('ACL', 'SETUSER', 'limiter', 'on', '>secret', '~rl:*', '-@all', ...commands)
    const url = `redis://limiter:secret@127.0.0.1:${redis.port}`
    const openOne = (cacheKeyPrefix: string) => {
      const counters = createRedisCounters({ url, deadlineMs: 5_000, random: Math.random })
      t.after(() => counters.close())
      return new BackendHealth(counters, new ErrorWatch(clock), false, cacheKeyPrefix)
    }
    const [good, wrong] = [openOne('rl:'), openOne('')]
    await waitFor('the health', () => good.healthy)
    await waitFor('the reason', () => /^NOPERM /.test(wrong.problem))
    assert.equal(wrong.healthy, false)
    await redis.command('ACL', 'SETUSER', 'limiter', '~*')
    await waitFor('the health', () => wrong.healthy)
  })
})
