import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createReadRateLimiter } from './read-rate-limiter.ts'

/**
 * Simulates keys that read when their wait is over and then reserve again. Returns the times of all reads.
 */
function simulate(
  keys: number,
  { seconds, reads = 1, atLeastMs = 30_000 }: { seconds: number; reads?: number; atLeastMs?: number },
) {
  let nowMs = 0
  let seed = 1
  const random = () => {
    seed = (seed * 48_271) % 2_147_483_647
    return seed / 2_147_483_647
  }
  const limiter = createReadRateLimiter({ readsPerSecond: 5, clock: { monotonicMs: () => nowMs }, random })
  const due = Array.from({ length: keys }, (_, key) => ({
    key: `${key}`,
    atMs: limiter.reserve(`${key}`, { atLeastMs, reads }),
  }))
  const times = new Map<string, number[]>()
  for (;;) {
    const next = due.reduce((a, b) => (b.atMs < a.atMs ? b : a))
    if (next.atMs > seconds * 1000)
      return { limiter, times, all: [...times.values()].flat().sort((a, b) => a - b) }
    nowMs = next.atMs
    times.set(next.key, [...(times.get(next.key) ?? []), nowMs])
    next.atMs = nowMs + limiter.reserve(next.key, { atLeastMs, reads })
  }
}

/** Returns the highest number of reads in any minute. */
function mostInAMinute(times: readonly number[]): number {
  let end = 0
  const counts = times.map((begin, index) => {
    while ((times[end] ?? Number.POSITIVE_INFINITY) < begin + 60_000) end++
    return end - index
  })
  return Math.max(...counts)
}

test('few keys are read every 30 to 45 seconds', () => {
  const { times } = simulate(10, { seconds: 600 })
  for (const at of times.values()) {
    const waits = at.slice(1).map((ms, index) => ms - (at[index] ?? 0))
    assert.ok(Math.min(...waits) >= 30_000 && Math.max(...waits) <= 47_500, `${waits}`)
  }
})

for (const [keys, reads] of [
  [1_000, 1],
  [1_000, 3],
  [2_000, 1],
] as const) {
  test(`${keys} keys of ${reads} reads stay within 5 reads a second, and each is read once a round`, () => {
    const roundSeconds = (keys * reads) / 5
    const { times, all } = simulate(keys, { seconds: 2 * roundSeconds + 60, reads })
    assert.equal(times.size, keys)
    assert.ok(mostInAMinute(all) * reads <= 315, `${mostInAMinute(all)} in a minute`)
    for (const at of times.values()) {
      const waits = at.slice(1).map((ms, index) => ms - (at[index] ?? 0))
      assert.ok(Math.max(...waits) <= 1000 * (roundSeconds + 50), `${waits}`)
    }
  })
}

test('a key that is reserved repeatedly does not delay other keys', () => {
  const limiter = createReadRateLimiter({
    readsPerSecond: 5,
    clock: { monotonicMs: () => 0 },
    random: () => 0,
  })
  for (let edit = 0; edit < 10_000; edit++) limiter.reserve('busy', { atLeastMs: 30_000 })
  assert.ok(limiter.reserve('other', { atLeastMs: 30_000 }) <= 30_200)
})

test('a released key leaves its slot to others', () => {
  const limiter = createReadRateLimiter({
    readsPerSecond: 1,
    clock: { monotonicMs: () => 0 },
    random: () => 0,
  })
  const first = limiter.reserve('a', { atLeastMs: 1_000 })
  assert.ok(limiter.reserve('b', { atLeastMs: 1_000 }) > first)
  limiter.release('a')
  assert.equal(limiter.reserve('c', { atLeastMs: 1_000 }), first)
})
