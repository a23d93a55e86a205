import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { systemClock } from '@tollway/chassis/clock.ts'
import fc from 'fast-check'
import { waitFor } from '../../../../test/support/wait-for.ts'
import { CountersError, type Hit, maxCount } from '../counters.ts'
import { Pipeline } from './pipeline.ts'
import type { OnAnswers, Send } from './send.ts'
import { type Count, type Increment, sendSums } from './sum-equal-keys.ts'
import { KeyHash, TouchedKeys } from './touched-keys.ts'

const int64Max = 2n ** 63n - 1n

/** Creates a backend that counts in 64 bits and rejects an overflow, as Redis does. */
function createLedger(start: Readonly<Record<string, bigint>> = {}) {
  const values = new Map(Object.entries(start))
  return {
    values,
    increment(key: string, by: number): Count {
      const value = (values.get(key) ?? 0n) + BigInt(by)
      if (value > int64Max) return 2n ** 63n
      values.set(key, value)
      return value <= BigInt(maxCount) ? Number(value) : value
    },
  }
}

interface Setup {
  readonly pipeline: Pipeline
  /** The increments of each write. */
  readonly writes: (readonly Increment[])[]
  /** Answers the oldest write without an answer; `problem` is the reason for missing replies. */
  answer(counts: readonly (Count | CountersError)[], problem?: string): void
}

/** Creates a pipeline whose backend answers when the test calls `answer`. */
function setUp(
  t: TestContext,
  options: Partial<ConstructorParameters<typeof Pipeline<Hit, number>>[0]> = {},
): Setup {
  const writes: (readonly Increment[])[] = []
  const waiting: OnAnswers<Count>[] = []
  const send: Send<Increment, Count> = (increments, onAnswers) => {
    writes.push(increments)
    waiting.push(onAnswers)
  }
  const defaults = { deadlineMs: 10_000, windowMs: 0, limit: 0, maxHitsInFlight: 100 }
  const pipeline = new Pipeline({ send: sendSums(send, new TouchedKeys(100)), ...defaults, ...options })
  t.after(() => pipeline.close())
  return { pipeline, writes, answer: (counts, problem) => waiting.shift()?.(counts, problem) }
}

const nextTurn = () => new Promise(resolve => setImmediate(resolve))
const hit = (key: string, hits: number, expirySeconds = 60): Hit => ({
  key,
  hits,
  expirySeconds,
  limit: maxCount,
})

test('the calls of a turn share one write, with equal keys summed', async t => {
  const { pipeline, writes, answer } = setUp(t)
  const first = pipeline.add([hit('a', 1), hit('b', 2), hit('a', 3)])
  const second = pipeline.add([hit('b', 1, 90), hit('c', 0)])
  await nextTurn()
  assert.deepEqual(
    writes.map(write => write.map(({ key, by, expirySeconds }) => `${key} ${by} ${expirySeconds}`)),
    [['a 4 60', 'b 3 90', 'c 0 60']],
  )
  answer([14, 3, 7])
  assert.deepEqual(await first, [11, 2, 14])
  assert.deepEqual(await second, [3, 7])
})

test('many hits of a turn are several writes unless there is a window', async t => {
  const calls = Array.from({ length: 101 }, (_, index) => [hit(`key ${index}`, 1)])
  const maxHitsInFlight = calls.length
  const writesOf = ({ writes }: Setup) => writes.map(write => write.length)

  const without = setUp(t, { maxHitsInFlight })
  for (const call of calls) without.pipeline.add(call).catch(() => {})
  assert.deepEqual(writesOf(without), [50, 50])
  await nextTurn()
  assert.deepEqual(writesOf(without), [50, 50, 1])

  const within = setUp(t, { maxHitsInFlight, windowMs: 1 })
  for (const call of calls) within.pipeline.add(call).catch(() => {})
  await waitFor('the window to be over', () => within.writes.length > 0)
  assert.deepEqual(writesOf(within), [calls.length])
})

test('calls that were rejected before they were sent are dropped', async t => {
  t.mock.timers.enable({ apis: ['setTimeout', 'setImmediate'] })
  let nowMs = 0
  const clock = { ...systemClock, monotonicMs: () => nowMs }
  const { pipeline, writes } = setUp(t, { deadlineMs: 10, windowMs: 50, maxHitsInFlight: 2, clock })
  const calls = [pipeline.add([hit('a', 1)]), pipeline.add([hit('b', 1)])]
  const pass = (ms: number) => {
    nowMs += ms
    t.mock.timers.tick(ms)
  }
  pass(10)
  for (const call of calls) {
    await assert.rejects(call, { name: 'CountersError', message: /did not answer/ })
  }
  await assert.rejects(pipeline.add([hit('c', 1)]), /too many hits in flight/)
  pass(40)
  assert.deepEqual(writes, [])
  const next = pipeline.add([hit('c', 1)])
  pass(10)
  await assert.rejects(next, /did not answer/)
})

/** Returns the values that result if each hit is counted separately. */
function oneByOne(ledger: ReturnType<typeof createLedger>, batch: readonly Hit[]): number[] {
  return batch.map(({ key, hits }) => {
    const reply = ledger.increment(key, hits)
    return typeof reply === 'number' ? reply : maxCount
  })
}

test('values equal those of counting one by one, in the order of arrival', async t => {
  const amount = fc.oneof(fc.nat(5), fc.constantFrom(maxCount, maxCount - 1, 2 ** 52), fc.maxSafeNat())
  const key = fc.constantFrom('a', 'b', 'c')
  const call = fc.array(
    fc.record({ key, hits: amount, expirySeconds: fc.constant(60), limit: fc.constant(1) }),
    { maxLength: 6 },
  )
  /** The calls of each turn. */
  const turns = fc.array(fc.array(call, { maxLength: 6 }), { maxLength: 4 })
  const start = fc.record({
    a: fc.constantFrom(0n, 7n, BigInt(maxCount) - 3n),
    b: fc.bigInt({ min: 0n, max: 2n ** 54n }),
    c: fc.bigInt({ min: int64Max - 2n ** 55n, max: int64Max }),
  })
  const limits = fc.record({
    maxTouchedKeys: fc.constantFrom(1, 4, 100),
    hash: fc.constantFrom(new KeyHash(), { low: 1, high: 1, of() {} }),
    limit: fc.constantFrom(0, 1, 7),
  })
  const answersAtOnce = fc.boolean()
  await fc.assert(
    fc.asyncProperty(start, turns, limits, answersAtOnce, async (starts, calls, most, atOnce) => {
      const summed = createLedger(starts)
      // Later turns send calls before the answer arrives.
      const send: Send<Increment, Count> = (increments, onAnswers) => {
        const counts = increments.map(increment => summed.increment(increment.key, increment.by))
        if (atOnce) onAnswers(counts, undefined)
        else setImmediate(() => setImmediate(() => onAnswers(counts, undefined)))
      }
      const sums = sendSums(send, new TouchedKeys(most.maxTouchedKeys, most.hash))
      const { pipeline } = setUp(t, { send: sums, limit: most.limit })
      const ledger = createLedger(starts)
      const expected = calls.flatMap(turn => turn.map(batch => oneByOne(ledger, batch)))
      const values: Promise<readonly number[]>[] = []
      for (const turn of calls) {
        for (const batch of turn) values.push(pipeline.add(batch))
        await nextTurn()
      }
      assert.deepEqual(await Promise.all(values), expected)
      pipeline.close()
    }),
  )
})

test('no sum exceeds 2^53-1', async t => {
  const { pipeline, writes, answer } = setUp(t)
  const batch = [hit('a', 5), hit('a', maxCount), hit('a', maxCount), hit('b', maxCount - 1), hit('b', 1)]
  const call = pipeline.add(batch)
  await nextTurn()
  assert.deepEqual(
    writes.map(write => write.map(({ key, by }) => `${key} ${by}`)),
    [['a 5', `a ${maxCount}`, `a ${maxCount}`, `b ${maxCount}`]],
  )
  answer([5, BigInt(maxCount) + 5n, 2n * BigInt(maxCount) + 5n, maxCount])
  assert.deepEqual(await call, [5, maxCount, maxCount, maxCount - 1, maxCount])
})

test('an error of one key rejects only the calls with that key', async t => {
  const { pipeline, answer } = setUp(t)
  const both = pipeline.add([hit('a', 1), hit('bad', 1)])
  const good = pipeline.add([hit('a', 1)])
  await nextTurn()
  answer([2, new CountersError('WRONGTYPE of some kind')])
  await assert.rejects(both, { name: 'CountersError', message: 'WRONGTYPE of some kind' })
  assert.deepEqual(await good, [2])
})

test('missing replies reject only the calls that need them, with the reason', async t => {
  const { pipeline, answer } = setUp(t)
  const answered = pipeline.add([hit('a', 1)])
  const lost = pipeline.add([hit('a', 1), hit('b', 1)])
  await nextTurn()
  answer([2], 'the wire is cut')
  assert.deepEqual(await answered, [1])
  await assert.rejects(lost, { name: 'CountersError', message: 'the wire is cut' })
  const unexplained = pipeline.add([hit('a', 1)])
  await nextTurn()
  answer([])
  await assert.rejects(unexplained, { name: 'CountersError', message: 'the backend left out a reply' })
})

test('an unanswered call is rejected at its deadline', async t => {
  const { pipeline } = setUp(t, { deadlineMs: 20 })
  const startMs = performance.now()
  await assert.rejects(pipeline.add([hit('a', 1)]), /did not answer within 20 ms/)
  assert.ok(performance.now() - startMs >= 18)
})

test('each call has its own deadline, with one timer for all', async t => {
  const { pipeline, answer } = setUp(t, { deadlineMs: 30 })
  const startMs = performance.now()
  const answered = pipeline.add([hit('a', 1)])
  await nextTurn()
  const late = assert.rejects(pipeline.add([hit('b', 1)]), /within 30 ms/)
  await nextTurn()
  answer([1])
  assert.deepEqual(await answered, [1])
  while (performance.now() < startMs + 10) await nextTurn()
  const laterStartMs = performance.now()
  const later = assert.rejects(pipeline.add([hit('c', 1)]), /within 30 ms/)
  await late
  assert.ok(performance.now() - startMs >= 28)
  await later
  assert.ok(performance.now() - laterStartMs >= 28)
})

test('a call whose deadline passed before it was sent is not counted', async t => {
  const { pipeline, writes, answer } = setUp(t, { deadlineMs: 5, windowMs: 5_000, limit: 2 })
  await assert.rejects(pipeline.add([hit('late', 1)]), /within 5 ms/)
  const inTime = pipeline.add([hit('in time', 1)])
  assert.deepEqual(
    writes.map(write => write.map(({ key }) => key)),
    [['in time']],
  )
  answer([1])
  assert.deepEqual(await inTime, [1])
})

test('a window collects over turns, and the limit ends it early', async t => {
  const { pipeline, writes } = setUp(t, { windowMs: 5_000, limit: 3 })
  const calls = [pipeline.add([hit('a', 1)])]
  await nextTurn()
  calls.push(pipeline.add([hit('a', 1)]))
  await nextTurn()
  assert.equal(writes.length, 0)
  calls.push(pipeline.add([hit('a', 1)]))
  assert.deepEqual(
    writes.map(write => write.map(({ by }) => by)),
    [[3]],
  )
  const ends = Promise.allSettled(calls)
  pipeline.close()
  await ends
})

test('hits in flight are bounded, including those of rejected calls', async t => {
  const { pipeline, answer } = setUp(t, { maxHitsInFlight: 3, deadlineMs: 1_000 })
  const late = pipeline.add([hit('a', 1), hit('b', 1)])
  await assert.rejects(pipeline.add([hit('c', 1), hit('d', 1)]), {
    name: 'CountersError',
    message: 'too many hits in flight: 2 and 2 more; the limit is 3',
  })
  await assert.rejects(late, /within 1000 ms/)
  await assert.rejects(pipeline.add([hit('c', 1), hit('d', 1)]), /too many/)
  answer([1, 1])
  await nextTurn()
  const next = pipeline.add([hit('c', 1), hit('d', 1), hit('e', 1)])
  await nextTurn()
  answer([1, 1, 1])
  assert.deepEqual(await next, [1, 1, 1])
})

test('close rejects collected, sent and later calls', async t => {
  const { pipeline, writes, answer } = setUp(t)
  const sent = pipeline.add([hit('a', 1)])
  await nextTurn()
  const collected = pipeline.add([hit('b', 1)])
  const rejected = Promise.all([assert.rejects(sent, /closed/), assert.rejects(collected, /closed/)])
  pipeline.close()
  await rejected
  answer([1])
  await nextTurn()
  assert.equal(writes.length, 1)
  await assert.rejects(pipeline.add([]), /closed/)
})
