import type { Clock } from '@tollway/chassis/clock.ts'
import type { LimitCheck, LimitOutcome } from './admission/limit-check.ts'
import { createMemoryAdmission } from './admission/memory-admission.ts'
import { stopOverLimit, toReadOnly } from './batching/split-batch.ts'
import { type Counters, CountersError, closedText, type Hit, maxCount } from './counters.ts'
import { type Expiring, ExpiringTable } from './expiring-table.ts'
import { MemoryBucketShares } from './memory-bucket-shares.ts'
import { MemoryReservations } from './memory-reservations.ts'

interface MemoryCountersOptions {
  /** Only `monotonicMs` is used: a step of the wall clock must not change how long a counter lives. */
  readonly clock: Clock
  /** At most this many counters are kept at once. At least 1. */
  readonly maxKeys?: number
  /** If any key of a batch would exceed its limit, only the keys that would are incremented. */
  readonly stopWhenOver?: boolean
}

interface MemoryCounters extends Counters {
  /** Returns the values synchronously, except after `close`, when it returns a promise that rejects. */
  add(batch: readonly Hit[]): readonly number[] | Promise<never>
  admit(checks: readonly LimitCheck[]): readonly LimitOutcome[] | Promise<never>
  /** The number of counters, including expired ones that have not been removed yet. */
  readonly size: number
}

/** A full table takes about 200 MB of heap with keys of typical length. */
const defaultMaxKeys = 1_000_000

interface Counter extends Expiring {
  count: number
  expiresAt: number
  /** The longest `expirySeconds` of the hits so far; a hit with a longer one prolongs the counter. */
  expirySeconds: number
}

/**
 * Counters of this process alone; exact, and always healthy.
 *
 * Memory is bounded by `maxKeys`. `ExpiringTable` documents which counters are evicted at that limit.
 *
 * @throws RangeError when `maxKeys` is below 1
 */
export function createMemoryCounters(options: MemoryCountersOptions): MemoryCounters {
  const { clock, maxKeys = defaultMaxKeys, stopWhenOver = false } = options
  if (!(maxKeys >= 1)) throw new RangeError(`maxKeys is ${maxKeys}; it must be at least 1`)
  const counters = new ExpiringTable<Counter>(maxKeys)
  let closed = false

  function addOne(hit: Hit, nowSeconds: number, prolongs = hit.hits > 0): number {
    const { key, hits, expirySeconds } = hit
    const counter = counters.get(key, nowSeconds)
    if (counter !== undefined) {
      const least = hits < 0 && !hit.grants ? Math.min(0, counter.count) : Number.NEGATIVE_INFINITY
      counter.count = Math.min(maxCount, Math.max(least, counter.count + hits))
      if (prolongs && counter.expirySeconds < expirySeconds) prolong(counter, hit, nowSeconds)
      return counter.count
    }
    if (hits === 0 || (hits < 0 && !hit.grants)) return 0
    counters.set(key, { count: hits, expiresAt: findExpiry(hit, nowSeconds), expirySeconds }, nowSeconds)
    return hits
  }

  function addAll(batch: readonly Hit[], nowSeconds: number): readonly number[] {
    return batch.map(hit => addOne(hit, nowSeconds))
  }

  const { admit, windowOf } = createMemoryAdmission({
    clock,
    maxKeys,
    // A check never gives back more than was counted, unless it grants hits.
    count: (check, hits, isAsked) =>
      addOne({ ...check, hits, grants: true }, clock.monotonicMs() / 1000, isAsked),
  })

  const reservations = new MemoryReservations({ admit, windowOf, clock })
  const bucketShares = new MemoryBucketShares(clock)

  // The size is a field, because V8 would keep an object with an accessor as a slow hash table.
  const memory: MemoryCounters & { size: number } = {
    size: 0,
    add(batch) {
      if (closed) return Promise.reject(new CountersError(closedText))
      const nowSeconds = clock.monotonicMs() / 1000
      const counted = stopWhenOver ? stopOverLimit(batch, addAll(batch.map(toReadOnly), nowSeconds)) : batch
      const values = addAll(counted, nowSeconds)
      memory.size = counters.size
      return values
    },
    admit: checks => (closed ? Promise.reject(new CountersError(closedText)) : admit(checks)),
    reservations,
    openBucketShares: () => bucketShares,
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

function prolong(counter: Counter, hit: Hit, nowSeconds: number): void {
  counter.expirySeconds = hit.expirySeconds
  counter.expiresAt = Math.max(counter.expiresAt, findExpiry(hit, nowSeconds))
}

/** Rounds up to whole seconds, since a counter is kept for at least its expiry. */
function findExpiry({ expirySeconds, jitterSeconds = 0 }: Hit, nowSeconds: number): number {
  return Math.ceil(nowSeconds + expirySeconds + jitterSeconds)
}
