import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Clock, systemClock } from '@tollway/chassis/clock.ts'
import fc from 'fast-check'
import { cpuMsOf } from '../../../test/support/cpu-time.ts'
import type { LimitCheck, LimitOutcome } from './admission/limit-check.ts'
import { bucketGrantMs } from './bucket-shares.ts'
import { type Hit, maxCount } from './counters.ts'
import { createMemoryCounters } from './memory.ts'
import { MemoryBucketShares } from './memory-bucket-shares.ts'
import { MemoryReservations } from './memory-reservations.ts'
import { endedMemoryMs, type Reservations } from './reservations.ts'
import { countersContract } from './testing/counters.contract.ts'
import { clockStepsContract, reservationsContract } from './testing/reservations.contract.ts'
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
clockStepsContract('memory', async () => {
  let nowMs = 0
  const counters = createMemoryCounters({ clock: { nowMs: () => nowMs, monotonicMs: () => 0 } })
  return {
    counters,
    setTime(seconds) {
      nowMs = seconds * 1000
    },
  }
})
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

for (const [step, stepMs] of [
  ['forward', 3_600_000],
  ['back to the window before', -7_200_000],
] as const) {
  test(`a step of the clock ${step} lets no reservation and no hold outlive its time`, async () => {
    let [nowMs, monotonicMs] = [1_000_000_000_000, 5_000]
    const counters = createMemoryCounters({ clock: { nowMs: () => nowMs, monotonicMs: () => monotonicMs } })
    const check = (key: string): LimitCheck => ({
      ...{ key, algorithm: key as LimitCheck['algorithm'], hits: 0, limit: 10, burst: 10 },
      ...{ windowTicks: 86_400_000_000, ticksPerSecond: 1_000_000, expirySeconds: 86_400 },
      ...{ shadow: false, countRejected: false },
    })
    const reservations = counters.reservations as Reservations
    const keys = ['FixedWindow', 'SlidingWindow', 'TokenBucket', 'Concurrency']
    const remaining = async () => {
      const outcomes = await counters.admit?.(keys.map(check))
      return outcomes?.map(outcome => outcome.remaining)
    }
    for (const key of keys) await reservations.reserve({ key, checks: [check(key)] }, 'a', 4, 60_000)
    nowMs += stepMs
    for (const ms of [59_999, 1]) {
      const { reservation } = await reservations.change('FixedWindow', 'a', { do: 'look' })
      assert.equal(reservation?.state, 'open')
      nowMs += ms
      monotonicMs += ms
    }
    await reservations.sweep('')
    assert.deepEqual(await remaining(), [10, 10, 10, 10])
  })
}

test('reservations end and are forgotten in the order of their times, whatever the order of the calls', () => {
  const key = 'FixedWindow'
  const limit = 1_000_000
  const check: LimitCheck = {
    ...{ key, algorithm: key, hits: 0, limit, burst: limit, windowTicks: 86_400, ticksPerSecond: 1 },
    ...{ expirySeconds: 86_400, shadow: false, countRejected: false },
  }
  const step = fc.record({
    what: fc.constantFrom('reserve', 'extend', 'commit', 'release', 'elapse'),
    entry: fc.nat(20),
    amount: fc.integer({ min: 1, max: 100 }),
    ms: fc.integer({ min: 1, max: 200_000 }),
  })
  fc.assert(
    fc.property(fc.array(step, { minLength: 100, maxLength: 200 }), steps => {
      let nowMs = 1_000_000_000_000
      const counters = createMemoryCounters({
        clock: { nowMs: () => nowMs, monotonicMs: () => nowMs },
      })
      const reservations = counters.reservations as Reservations
      /** What is counted for each reservation, and until when: when it expires, or is forgotten. */
      const known = new Map<string, { state: string; counted: number; untilMs: number }>()
      let forgotten = 0
      const settle = () => {
        for (const [entry, each] of known) {
          if (each.state === 'open' && each.untilMs <= nowMs) {
            known.set(entry, { state: 'expired', counted: 0, untilMs: each.untilMs + endedMemoryMs })
          }
          const { counted, state, untilMs } = known.get(entry) ?? each
          if (state === 'open' || untilMs > nowMs) continue
          forgotten += counted
          known.delete(entry)
        }
      }
      for (const { what, entry: number, amount, ms } of steps) {
        const entry = `e${number}`
        if (what === 'elapse') nowMs += ms
        settle()
        const each = known.get(entry)
        if (what === 'reserve') {
          void reservations.reserve({ key, checks: [check] }, entry, amount, ms)
          if (each === undefined) known.set(entry, { state: 'open', counted: amount, untilMs: nowMs + ms })
        } else if (what === 'extend') {
          void reservations.change(key, entry, { do: 'extend', ttlMs: ms })
          if (each?.state === 'open') each.untilMs = nowMs + ms
        } else if (what === 'commit') {
          void reservations.change(key, entry, { do: 'commit', actual: amount })
          if (each?.state === 'open' || each?.state === 'expired') {
            known.set(entry, { state: 'committed', counted: amount, untilMs: nowMs + endedMemoryMs })
          }
        } else if (what === 'release') {
          void reservations.change(key, entry, { do: 'release' })
          if (each?.state === 'open') {
            known.set(entry, { state: 'released', counted: 0, untilMs: nowMs + endedMemoryMs })
          }
        } else void reservations.sweep('')
        const counted = [...known.values()].reduce((sum, one) => sum + one.counted, forgotten)
        const [outcome] = (counters.admit?.([check]) ?? []) as readonly LimitOutcome[]
        assert.equal(outcome?.remaining, limit - counted)
      }
    }),
  )
})

test('a hundred thousand reservations of one limit stall no call', async () => {
  let nowMs = 1_000_000_000_000
  const { reservations } = createMemoryCounters({ clock: { nowMs: () => nowMs, monotonicMs: () => nowMs } })
  const check: LimitCheck = {
    ...{ key: 'a', algorithm: 'FixedWindow', hits: 0, limit: maxCount, burst: maxCount, windowTicks: 86_400 },
    ...{ ticksPerSecond: 1, expirySeconds: 86_400, shadow: false, countRejected: false },
  }
  const before = process.threadCpuUsage()
  for (let entry = 0; entry < 100_000; entry++) {
    void reservations?.reserve({ key: 'a', checks: [check] }, `e${entry}`, 1, 60_000 - (entry % 1_000))
    if (entry % 2 === 0) void reservations?.change('a', `e${entry / 2}`, { do: 'release' })
  }
  nowMs += 60_000
  await reservations?.sweep('')
  nowMs += endedMemoryMs
  for (let sweeps = 0; sweeps < 10; sweeps++) await reservations?.sweep('')
  const { user, system } = process.threadCpuUsage(before)
  assert.ok(user + system < 10_000_000, `it took ${Math.round((user + system) / 1000)} ms of CPU`)
  assert.equal((await reservations?.change('a', 'e99999', { do: 'look' }))?.reservation, undefined)
})

test('all descriptors of the process together have at most so many reservations', () => {
  const admit = () => []
  const windowOf = () => 0
  const reservations = new MemoryReservations({ admit, windowOf, clock: systemClock, maxReservations: 2 })
  const reserve = (key: string) => reservations.reserve({ key, checks: [] }, 'a', 1, 60_000)
  reserve('one')
  reserve('other')
  assert.throws(() => reserve('third'), /^TooManyReservationsError: the process has 2 reservations/)
  assert.equal(reserve('one').reservation?.state, 'open', 'a call that is repeated needs no room')
})

test('when there are too many buckets, a further one takes no longer, until grants have expired', () => {
  let nowMs = 0
  const max = 50_000
  const shares = new MemoryBucketShares({ nowMs: () => nowMs, monotonicMs: () => nowMs }, max)
  const renew = (nth: number) => {
    const report = { wanted: 1, held: 1, sequence: nth + 1 }
    return shares.renew({ bucket: `bucket ${nth}`, member: 'a', capacity: 100, report })
  }
  const measureMs = (from: number, to: number, granted: number) =>
    cpuMsOf(() => {
      for (let nth = from; nth < to; nth += 1) assert.equal(renew(nth), granted)
    })
  const filledMs = measureMs(0, max, 1)
  const rejectedMs = measureMs(max, max + 2_000, 0)
  assert.ok(rejectedMs < filledMs, `${rejectedMs} ms for 2,000, after ${filledMs} ms for ${max}`)
  shares.leave('bucket 7', 'a')
  assert.equal(renew(max), 1, 'a bucket that its last member has left makes room at once')
  nowMs = bucketGrantMs
  measureMs(2 * max, 3 * max, 51)
})
