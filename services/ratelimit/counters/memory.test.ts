import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Clock, systemClock } from '@tollway/chassis/clock.ts'
import fc from 'fast-check'
import { type Hit, maxCount } from './counters.ts'
import { createMemoryCounters } from './memory.ts'
import { countersContract } from './testing/counters.contract.ts'
import { reservationsContract } from './testing/reservations.contract.ts'
import { stopWhenOverContract } from './testing/stop-when-over.contract.ts'

type MemoryCounters = ReturnType<typeof createMemoryCounters>

function openMemory(
  maxKeys?: number,
  stopWhenOver = false,
): { counters: MemoryCounters; elapse(seconds: number): void } {
  let nowMs = 5_000
  const clock: Clock = { nowMs: () => nowMs, monotonicMs: () => nowMs }
  return {
    counters: createMemoryCounters({ clock, stopWhenOver, ...(maxKeys === undefined ? {} : { maxKeys }) }),
    elapse(seconds) {
      nowMs += seconds * 1_000
    },
  }
}

countersContract('memory', async () => openMemory())
reservationsContract('memory', async () => ({ counters: createMemoryCounters({ clock: systemClock }) }))
stopWhenOverContract('memory', async () => openMemory(undefined, true))

function hit(key: string, hits: number, expirySeconds: number, limit = maxCount): Hit {
  return { key, hits, expirySeconds, limit }
}

async function add(counters: MemoryCounters, key: string, expirySeconds: number, hits = 1): Promise<number> {
  const [value = -1] = await counters.add([hit(key, hits, expirySeconds)])
  return value
}

test('counters in memory start healthy', () => {
  assert.equal(openMemory().counters.healthy, true)
})

test('counters in memory return values, not a promise', () => {
  const { counters } = openMemory()
  assert.deepEqual(counters.add([hit('a', 2, 60)]), [2])
  assert.deepEqual(counters.add([]), [])
})

test('a counter is kept for at least its seconds after its first hit', async () => {
  const { counters, elapse } = openMemory()
  elapse(0.25)
  await add(counters, 'a', 10)
  elapse(9.999)
  assert.equal(await add(counters, 'a', 10), 2)
  elapse(1)
  assert.equal(await add(counters, 'a', 10), 1)
})

test('a prolonged counter is swept when its longer unit is over, not before', async () => {
  const { counters, elapse } = openMemory(1)
  await add(counters, 'a', 1)
  await add(counters, 'a', 10)
  elapse(9)
  assert.equal(await add(counters, 'a', 10), 3)
  elapse(3)
  assert.equal(await add(counters, 'b', 1), 1)
  assert.equal(counters.size, 1)
})

test('adding 0 to an expired or unknown counter creates none', async () => {
  const { counters, elapse } = openMemory()
  await add(counters, 'a', 1)
  elapse(2)
  assert.equal(await add(counters, 'a', 1, 0), 0)
  assert.equal(await add(counters, 'b', 1, 0), 0)
  assert.equal(counters.size, 1)
})

test('expired counters are swept as new ones are created', async () => {
  const { counters, elapse } = openMemory()
  for (let index = 0; index < 800; index += 1) await add(counters, `old-${index}`, 1 + (index % 7))
  elapse(10)
  for (let index = 0; index < 100; index += 1) await add(counters, `new-${index}`, 60)
  assert.equal(counters.size, 100)
})

test('at the limit, expired counters are evicted first, then those that expire soonest', async () => {
  const { counters, elapse } = openMemory(3)
  await add(counters, 'day', 86_400)
  await add(counters, 'second', 1)
  await add(counters, 'minute', 60)
  await add(counters, 'another minute', 60)
  assert.deepEqual(await valuesOf(counters, ['day', 'second', 'minute', 'another minute']), [1, 0, 1, 1])
  elapse(61)
  await add(counters, 'another day', 86_400)
  await add(counters, 'hour', 3_600)
  assert.deepEqual(await valuesOf(counters, ['day', 'another day', 'hour']), [1, 1, 1])
  assert.equal(counters.size, 3)
})

test('at the limit, a counter that a longer unit prolonged is kept as long as that unit', async () => {
  const { counters } = openMemory(2)
  await add(counters, 'prolonged', 1)
  await add(counters, 'minute', 60)
  await add(counters, 'prolonged', 3_600)
  await add(counters, 'hour', 3_600)
  assert.deepEqual(await valuesOf(counters, ['prolonged', 'minute', 'hour']), [2, 0, 1])
})

test('a flood of new keys evicts its own counters', async () => {
  const { counters } = openMemory(10)
  for (let index = 0; index < 9; index += 1) await add(counters, `old-${index}`, 60)
  for (let index = 0; index < 1_000; index += 1) await add(counters, `flood-${index}`, 60)
  assert.equal(await add(counters, 'old-0', 60), 2)
  assert.equal(await add(counters, 'old-8', 60), 2)
})

async function valuesOf(counters: MemoryCounters, keys: readonly string[]): Promise<readonly number[]> {
  return counters.add(keys.map(key => hit(key, 0, 1)))
}

test('memory is bounded for any number of distinct keys', async () => {
  const { counters, elapse } = openMemory(1_000)
  for (let index = 0; index < 100_000; index += 1) {
    if (index % 1_000 === 0) elapse(0.1)
    counters.add([hit(`key-${index}`, 1, 1 + (index % 301))])
  }
  assert.ok(counters.size <= 1_000, `${counters.size} counters are held`)
})

test('counters are a map of sums with expiry, which never exceeds its limit', async () => {
  const step = fc.record({
    key: fc.constantFrom('a', 'b', 'c', 'd', 'e'),
    hits: fc.nat(3),
    expirySeconds: fc.integer({ min: 1, max: 4 }),
    elapseSeconds: fc.nat(2),
  })
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 60 }), async steps => {
      const { counters, elapse } = openMemory(5)
      const model = new Map<string, { count: number; unit: number; expiresAt: number }>()
      let now = 0
      for (const { key, hits, expirySeconds, elapseSeconds } of steps) {
        elapse(elapseSeconds)
        now += elapseSeconds
        const known = model.get(key)
        const live = known !== undefined && known.expiresAt > now
        const count = (live ? known.count : 0) + hits
        // A hit with a longer unit than those before it keeps the counter for the seconds of that unit.
        const unit = live ? Math.max(known.unit, hits > 0 ? expirySeconds : 0) : expirySeconds
        const expiresAt = live && unit === known.unit ? known.expiresAt : now + unit
        if (live || hits > 0) model.set(key, { count, unit, expiresAt })
        assert.equal(await add(counters, key, expirySeconds, hits), count)
        assert.ok(counters.size <= 5)
      }
    }),
  )
})
