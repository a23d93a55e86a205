import type { Clock } from '@tollway/chassis/clock.ts'
import type { Member, MemberOutcome } from './admission/member.ts'
import { createMemoryAdmission } from './admission/memory-admission.ts'
import { look, stoppedBatch } from './batching/split-batch.ts'
import { type Counters, CountersError, type Hit, maxCount } from './counters.ts'
import { createExpirySchedule } from './expiry-schedule.ts'

export interface MemoryCountersOptions {
  /**
   * Only `monotonicMs` is used: a counter's lifetime is a duration, which a step of the wall clock must not
   * change.
   */
  readonly clock: Clock
  /** The most counters that are kept at once, at least 1. */
  readonly maxKeys?: number
  /** Where a key of a batch would exceed its limit, only such keys are counted. */
  readonly stopWhenOver?: boolean
}

export interface MemoryCounters extends Counters {
  /** Returns the values at once. Returns a promise, which rejects, only after `close`. */
  add(batch: readonly Hit[]): readonly number[] | Promise<never>
  admit(members: readonly Member[]): readonly MemberOutcome[] | Promise<never>
  /** The number of counters, including expired ones that were not swept yet. */
  readonly size: number
}

/** About 200 MB of heap with keys of typical length. */
const defaultMaxKeys = 1_000_000

/**
 * The number of expired counters that a new one sweeps. It is above one, so that sweeping outpaces any flood
 * of new keys.
 */
const sweptPerNewKey = 8

interface Counter {
  count: number
  /** In whole seconds of the monotonic clock. */
  expiresAt: number
  /** The longest unit of the counter's hits: a hit with a longer one prolongs the counter. */
  expirySeconds: number
}

/**
 * Counters of this process alone; exact, and always healthy.
 *
 * Memory is bounded by `maxKeys`. At that limit a new key first evicts expired counters, then the counter
 * that expires soonest, since that loses the least. Among counters that expire in the same second the
 * youngest is evicted, so that a flood of keys evicts its own counters and not those that existed before it.
 *
 * @throws RangeError when `maxKeys` is below 1
 */
export function createMemoryCounters(options: MemoryCountersOptions): MemoryCounters {
  const { clock, maxKeys = defaultMaxKeys, stopWhenOver = false } = options
  if (!(maxKeys >= 1)) throw new RangeError(`maxKeys is ${maxKeys}; it must be at least 1`)
  const counters = new Map<string, Counter>()
  const schedule = createExpirySchedule()
  let closed = false

  /** Deletes the key's counter if it expires at that time: a later or prolonged counter has another entry. */
  function drop(key: string, expiresAt: number): void {
    if (counters.get(key)?.expiresAt === expiresAt) counters.delete(key)
  }

  function makeRoom(nowSeconds: number): void {
    for (let swept = 0; swept < sweptPerNewKey && schedule.soonest() <= nowSeconds; swept += 1) {
      schedule.take(drop)
    }
    while (counters.size >= maxKeys) schedule.take(drop)
  }

  function addOne(hit: Hit, nowSeconds: number): number {
    const { key, hits, expirySeconds } = hit
    const counter = counters.get(key)
    if (counter !== undefined && counter.expiresAt > nowSeconds) {
      counter.count = Math.min(maxCount, counter.count + hits)
      if (hits > 0 && counter.expirySeconds < expirySeconds) prolong(counter, hit, nowSeconds)
      return counter.count
    }
    if (hits === 0) return 0
    if (counter !== undefined) counters.delete(key)
    makeRoom(nowSeconds)
    const expiresAt = endOf(hit, nowSeconds)
    counters.set(key, { count: hits, expiresAt, expirySeconds })
    schedule.put(expiresAt, key)
    return hits
  }

  function prolong(counter: Counter, hit: Hit, nowSeconds: number): void {
    const expiresAt = endOf(hit, nowSeconds)
    counter.expirySeconds = hit.expirySeconds
    if (expiresAt <= counter.expiresAt) return
    counter.expiresAt = expiresAt
    schedule.put(expiresAt, hit.key)
  }

  function addAll(batch: readonly Hit[], nowSeconds: number): readonly number[] {
    return batch.map(hit => addOne(hit, nowSeconds))
  }

  const admit = createMemoryAdmission({
    clock,
    maxKeys,
    count: (member, hits) => addOne({ ...member, hits }, clock.monotonicMs() / 1000),
  })

  // The size is a field: V8 would keep an object with an accessor as a hash table.
  const memory: MemoryCounters & { size: number } = {
    size: 0,
    add(batch) {
      if (closed) return Promise.reject(new CountersError('the counters are closed'))
      const nowSeconds = clock.monotonicMs() / 1000
      const counted = stopWhenOver ? stoppedBatch(batch, addAll(batch.map(look), nowSeconds)) : batch
      const values = addAll(counted, nowSeconds)
      memory.size = counters.size
      return values
    },
    admit: members =>
      closed ? Promise.reject(new CountersError('the counters are closed')) : admit(members),
    healthy: true,
    problem: '',
    onHealth() {},
    close() {
      closed = true
      counters.clear()
      memory.size = 0
      return Promise.resolve()
    },
  }
  return memory
}

/** Rounds up, since a counter is kept for at least its expiry. */
function endOf({ expirySeconds, jitterSeconds = 0 }: Hit, nowSeconds: number): number {
  return Math.ceil(nowSeconds + expirySeconds + jitterSeconds)
}
