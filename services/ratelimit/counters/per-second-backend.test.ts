import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Counters, CountersError, type Hit, maxCount } from './counters.ts'
import { createMemoryCounters } from './memory.ts'
import { PerSecondCounters } from './per-second-backend.ts'
import { countersContract } from './testing/counters.contract.ts'
import { stopWhenOverContract } from './testing/stop-when-over.contract.ts'

function open(stopWhenOver = false) {
  let nowMs = 5_000
  const clock = { nowMs: () => nowMs, monotonicMs: () => nowMs }
  const main = createMemoryCounters({ clock, stopWhenOver })
  const small = createMemoryCounters({ clock, stopWhenOver })
  const elapse = (seconds: number) => {
    nowMs += 1_000 * seconds
  }
  return {
    counters: new PerSecondCounters(main, small, stopWhenOver),
    main,
    small,
    elapse,
  }
}

/** Marks the hits of keys with an odd first character as hits of limits per second. */
function mixed(counters: Counters): Counters {
  const mark = (hit: Hit): Hit => ({ ...hit, perSecond: hit.key.charCodeAt(0) % 2 === 1 })
  return {
    healthy: true,
    problem: '',
    add: batch => counters.add(batch.map(mark)),
    onHealth() {},
    close: () => counters.close(),
  }
}

countersContract('two instances', async () => {
  const { counters, elapse } = open()
  return { counters: mixed(counters), elapse }
})
stopWhenOverContract('two instances', async () => ({ counters: open(true).counters }))

const hit = (key: string, perSecond: boolean, limit = maxCount): Hit => ({
  key,
  hits: 1,
  expirySeconds: 1,
  limit,
  perSecond,
})

test('hits of limits per second use their own instance, and values keep their order', async () => {
  const { counters, main, small } = open()
  assert.deepEqual(await counters.add([hit('a', true), hit('b', false), hit('a', true)]), [1, 1, 2])
  assert.deepEqual(await counters.add([hit('a', false), hit('b', false)]), [1, 2])
  assert.deepEqual(await counters.add([hit('a', true)]), [3])
  assert.deepEqual([main.size, small.size], [2, 1])
})

test('stopping at the limit takes two steps with both instances', async () => {
  const { counters } = open(true)
  const batch = [hit('a', true, 1), hit('b', false, 9)]
  assert.deepEqual(await counters.add(batch), [1, 1])
  assert.deepEqual(await counters.add(batch), [2, 1])
})

/** Creates a backend whose health the test sets. */
function backend() {
  const listeners: ((healthy: boolean) => void)[] = []
  const state = {
    healthy: false,
    problem: 'it is away',
    add: () => Promise.reject(new CountersError('it is away')),
    onHealth: (listener: (healthy: boolean) => void) => void listeners.push(listener),
    close: () => Promise.resolve(),
    become(healthy: boolean): void {
      state.healthy = healthy
      state.problem = healthy ? '' : 'it is lost'
      for (const listener of listeners) listener(healthy)
    },
  }
  return state
}

test('healthy while both backends are, with the problem of the unhealthy one', () => {
  const [main, small] = [backend(), backend()]
  const counters = new PerSecondCounters(Object.assign(main, { admit: () => [] }), small, false)
  const health: boolean[] = []
  counters.onHealth(healthy => health.push(healthy))
  assert.equal(counters.problem, 'it is away')
  main.become(true)
  assert.equal(counters.problem, 'per second: it is away')
  small.become(true)
  assert.equal(counters.problem, '')
  small.become(false)
  main.become(false)
  main.become(true)
  small.become(true)
  assert.deepEqual(health, [true, false, true])
})
