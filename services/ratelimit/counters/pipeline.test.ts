import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { CountersError, type Hit, maxCount } from './counters.ts'
import {
  createPipeline,
  type Increment,
  type Pipeline,
  type PipelineOptions,
  type Reply,
  sumEqualKeys,
} from './pipeline.ts'

const int64Max = 2n ** 63n - 1n

/** A backend that counts in 64 bits and refuses what goes beyond, as Redis does. */
function createLedger(start: Readonly<Record<string, bigint>> = {}) {
  const values = new Map(Object.entries(start))
  return {
    values,
    increment(key: string, by: number): Reply {
      const value = (values.get(key) ?? 0n) + BigInt(by)
      if (value > int64Max) return 2n ** 63n
      values.set(key, value)
      return value <= BigInt(maxCount) ? Number(value) : value
    },
  }
}

interface Setup {
  readonly pipeline: Pipeline
  /** What was sent, a list of increments a write. */
  readonly writes: (readonly Increment[])[]
  /** Answers the oldest write that was not answered. */
  answer(replies: readonly Reply[]): void
}

/** A pipeline whose backend answers when the test says so. */
function setUp(options: Partial<PipelineOptions> = {}): Setup {
  const writes: (readonly Increment[])[] = []
  const waiting: ((replies: readonly Reply[]) => void)[] = []
  const send: PipelineOptions['send'] = increments => {
    writes.push(increments)
    return new Promise(resolve => waiting.push(resolve))
  }
  const defaults = { deadlineMs: 10_000, windowMs: 0, limit: 0, maxHitsInFlight: 100 }
  const pipeline = createPipeline({ send, ...defaults, ...options })
  return { pipeline, writes, answer: replies => waiting.shift()?.(replies) }
}

const nextTurn = () => new Promise(resolve => setImmediate(resolve))
const hit = (key: string, hits: number, expirySeconds = 60): Hit => ({ key, hits, expirySeconds })

test('the calls of a turn are one write, with equal keys summed', async () => {
  const { pipeline, writes, answer } = setUp()
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

test('values are those of counting one by one, in the order of arrival', async () => {
  const amount = fc.oneof(fc.nat(5), fc.constantFrom(maxCount, maxCount - 1, 2 ** 52), fc.maxSafeNat())
  const batches = fc.array(
    fc.array(fc.record({ key: fc.constantFrom('a', 'b', 'c'), hits: amount }), { maxLength: 6 }),
    { maxLength: 8 },
  )
  const starts = fc.record({
    a: fc.constantFrom(0n, 7n, BigInt(maxCount) - 3n),
    b: fc.bigInt({ min: 0n, max: 2n ** 54n }),
    c: fc.bigInt({ min: int64Max - 2n ** 55n, max: int64Max }),
  })
  await fc.assert(
    fc.asyncProperty(starts, batches, async (start, calls) => {
      const summed = createLedger(start)
      const { pipeline } = setUp({
        send: async increments => increments.map(({ key, by }) => summed.increment(key, by)),
      })
      const oneByOne = createLedger(start)
      const expected = calls.map(call =>
        call.map(({ key, hits }) => {
          const reply = oneByOne.increment(key, hits)
          return typeof reply === 'number' ? reply : maxCount
        }),
      )
      const values = await Promise.all(
        calls.map(call => pipeline.add(call.map(each => hit(each.key, each.hits)))),
      )
      assert.deepEqual(values, expected)
    }),
  )
})

test('no sum exceeds 2^53-1', () => {
  const batch = [hit('a', 5), hit('a', maxCount), hit('a', maxCount), hit('b', maxCount - 1), hit('b', 1)]
  const { increments } = sumEqualKeys([batch])
  assert.deepEqual(
    increments.map(({ key, by }) => [key, by]),
    [
      ['a', 5],
      ['a', maxCount],
      ['a', maxCount],
      ['b', maxCount],
    ],
  )
})

test('an error of one key rejects the calls that have it, and no others', async () => {
  const { pipeline, answer } = setUp()
  const both = pipeline.add([hit('a', 1), hit('bad', 1)])
  const good = pipeline.add([hit('a', 1)])
  await nextTurn()
  answer([2, new CountersError('WRONGTYPE of some kind')])
  await assert.rejects(both, { name: 'CountersError', message: 'WRONGTYPE of some kind' })
  assert.deepEqual(await good, [2])
})

test('a write that fails, or whose replies are too few, rejects its calls', async () => {
  const broken = setUp({ send: () => Promise.reject(new Error('the wire is cut')) })
  await assert.rejects(broken.pipeline.add([hit('a', 1)]), {
    name: 'CountersError',
    message: 'the wire is cut',
  })
  const short = setUp({ send: async () => [1] })
  await assert.rejects(short.pipeline.add([hit('a', 1), hit('b', 1)]), CountersError)
})

test('a call that is not answered by its deadline is rejected', async () => {
  const { pipeline } = setUp({ deadlineMs: 20 })
  const startMs = performance.now()
  await assert.rejects(pipeline.add([hit('a', 1)]), /did not answer within 20 ms/)
  assert.ok(performance.now() - startMs >= 20)
})

test('a call that was too late before it was sent is not counted', async () => {
  const { pipeline, writes, answer } = setUp({ deadlineMs: 5, windowMs: 5_000, limit: 2 })
  await assert.rejects(pipeline.add([hit('late', 1)]), /within 5 ms/)
  const inTime = pipeline.add([hit('in time', 1)])
  assert.deepEqual(
    writes.map(write => write.map(({ key }) => key)),
    [['in time']],
  )
  answer([1])
  assert.deepEqual(await inTime, [1])
})

test('a window collects over turns, and the limit ends it early', async () => {
  const { pipeline, writes } = setUp({ windowMs: 5_000, limit: 3 })
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

test('hits in flight are bounded, and those count that nobody waits for any more', async () => {
  const { pipeline, answer } = setUp({ maxHitsInFlight: 3, deadlineMs: 5 })
  const late = pipeline.add([hit('a', 1), hit('b', 1)])
  await assert.rejects(pipeline.add([hit('c', 1), hit('d', 1)]), {
    name: 'CountersError',
    message: 'too many hits in flight: 2 and 2 more; the limit is 3',
  })
  await assert.rejects(late, /within 5 ms/)
  await assert.rejects(pipeline.add([hit('c', 1), hit('d', 1)]), /too many/)
  answer([1, 1])
  await nextTurn()
  const next = pipeline.add([hit('c', 1), hit('d', 1), hit('e', 1)])
  await nextTurn()
  answer([1, 1, 1])
  assert.deepEqual(await next, [1, 1, 1])
})

test('close rejects what is collected, what is sent, and what comes', async () => {
  const { pipeline, writes, answer } = setUp()
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
