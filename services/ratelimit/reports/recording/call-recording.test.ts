import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import type { DecisionRequest } from '../../limiter/decision.ts'
import { type CallRecording, createCallRecording } from './call-recording.ts'
import type { ReadStep, RecordedCall } from './generation.ts'

const numRuns = Number(process.env['FC_RUNS'] ?? 200)
const text = fc.oneof(fc.constantFrom('', 'a', 'user', 'bob'), fc.string({ unit: 'binary', maxLength: 6 }))
const hits = fc.constantFrom(0, 1, 7, 2 ** 32 + 5, 2 ** 53 - 1)
const descriptor = fc.record({
  entries: fc.array(fc.record({ key: text, value: text }), { minLength: 1, maxLength: 3 }),
  hitsAddend: fc.option(hits, { nil: undefined }),
})
const call: fc.Arbitrary<DecisionRequest> = fc.record({
  domain: fc.constantFrom('shop', 'other', ''),
  descriptors: fc.array(descriptor, { minLength: 1, maxLength: 3 }),
  hitsAddend: hits,
})

function plain({ domain, descriptors, hitsAddend }: DecisionRequest): string {
  const parts = descriptors.map(each => [each.entries, each.hitsAddend ?? null])
  return JSON.stringify([domain, hitsAddend, parts])
}

test('every call of a domain is read as it was recorded, and equal calls of a second are one record', () => {
  const calls = fc.array(fc.tuple(call, fc.nat({ max: 2 })), { maxLength: 60 })
  fc.assert(
    fc.property(calls, recorded => {
      const recording = createCallRecording(1024 * 1024)
      const expected = new Map<string, number>()
      let second = 1_000_000
      for (const [request, later] of recorded) {
        second += later
        recording.record(request, second)
        if (request.domain !== 'shop') continue
        const name = `${second} ${plain(request)}`
        expected.set(name, (expected.get(name) ?? 0) + 1)
      }
      const found = recording.of('shop')
      const read = new Map(
        callsIn(found.records()).map(({ request, seconds, count }) => [
          `${seconds} ${plain(request)}`,
          count,
        ]),
      )
      assert.deepEqual([...read], [...expected])
      const total = expected.values().reduce((sum, count) => sum + count, 0)
      assert.deepEqual([found.share, found.calls], [1, total])
    }),
    { numRuns },
  )
})

const request = (value: string): DecisionRequest => ({
  domain: 'shop',
  descriptors: [{ entries: [{ key: 'user', value }] }],
  hitsAddend: 0,
})

function recordedOf(recording: CallRecording): number {
  return callsIn(recording.of('shop').records()).reduce((sum, { count }) => sum + count, 0)
}

function callsIn(steps: Iterable<ReadStep>): readonly RecordedCall[] {
  return Array.from(steps).flatMap(({ call }) => call ?? [])
}

test('the memory is fixed: the latest calls are kept, also while others are read', () => {
  const recording = createCallRecording(64 * 1024)
  for (let call = 0; call < 50_000; call++) recording.record(request(`user ${call}`), call)
  const before = recording.of('shop')
  const reading = before.records()
  assert.equal(reading.next().value?.call?.seconds, before.fromSeconds)
  for (let call = 50_000; call < 100_000; call++) recording.record(request(`user ${call}`), call)
  const seconds = callsIn(reading).map(found => found.seconds)
  assert.equal(seconds.at(-1), 49_999)
  const after = recording.of('shop')
  const kept = callsIn(after.records())
  assert.equal(kept.at(-1)?.seconds, 99_999)
  assert.equal(kept.at(-1)?.request.descriptors[0]?.entries[0]?.value, 'user 99999')
  assert.ok(kept.length > 100 && kept.length < 10_000, `${kept.length}`)
  assert.equal(after.share, 1)
})

test('a busy key takes one record a second', () => {
  const recording = createCallRecording(64 * 1024)
  for (let call = 0; call < 100_000; call++) recording.record(request('alice'), Math.floor(call / 10_000))
  const { length, calls, share, fromSeconds } = recording.of('shop')
  assert.deepEqual([length, recordedOf(recording), calls, share, fromSeconds], [10, 100_000, 100_000, 1, 0])
})

test('calls after a reading began are not added to the records that it reads', () => {
  const recording = createCallRecording(64 * 1024)
  recording.record(request('alice'), 1)
  const before = recording.of('shop').records()
  recording.record(request('alice'), 1)
  assert.deepEqual(
    callsIn(before).map(({ count }) => count),
    [1],
  )
  assert.equal(recordedOf(recording), 2)
})

test('a call that is too long counts as not recorded', () => {
  const recording = createCallRecording(64 * 1024)
  recording.record(request('x'.repeat(5_000)), 1)
  recording.record(request('y'), 1)
  assert.deepEqual([recordedOf(recording), recording.of('shop').calls], [1, 2])
})

test('beyond the limits of time and memory, each key has all its calls in the recording or none', () => {
  const load = fc.record({
    callsPerSecond: fc.integer({ min: 5, max: 500 }),
    keys: fc.integer({ min: 1, max: 5_000 }),
    rate: fc.integer({ min: 1, max: 1_000 }),
    seconds: fc.integer({ min: 1, max: 30 }),
    seed: fc.integer(),
  })
  let sampled = 0
  fc.assert(
    fc.property(load, ({ callsPerSecond, keys, rate, seconds, seed }) => {
      const recording = createCallRecording(64 * 1024, { callsPerSecond, seconds: 10 })
      const called = new Map<string, Map<number, number>>()
      const draw = uniform(seed)
      for (let second = 0; second < seconds; second++) {
        for (let call = 0; call < rate; call++) {
          const value = `user ${draw(keys)}`
          recording.record(request(value), second)
          addTo(called, value, second, 1)
        }
      }
      const found = recording.of('shop')
      if (found.share < 1) sampled += 1
      const from = found.fromSeconds ?? 0
      const read = new Map<string, Map<number, number>>()
      for (const { request: call, seconds: second, count } of callsIn(found.records())) {
        addTo(read, call.descriptors[0]?.entries[0]?.value ?? '', second, count)
      }
      // A generation can begin within a second, which the calls before it then lack.
      const after = (calls: ReadonlyMap<number, number> = new Map()) =>
        [...calls].filter(([second]) => second > from)
      for (const [value, calls] of read) assert.deepEqual(after(calls), after(called.get(value)), value)
      if (found.share === 1 && from === 0) assert.equal(read.size, called.size)
    }),
    { numRuns },
  )
  assert.ok(sampled > numRuns / 10, `${sampled} of ${numRuns} recordings were sampled`)
})

test('the recorded share of many keys is near the stated one, and grows again when the load ends', () => {
  const recording = createCallRecording(1024 * 1024, { callsPerSecond: 1_000, seconds: 10 })
  let second = 0
  for (; second < 20; second++) {
    for (let call = 0; call < 20_000; call++) recording.record(request(`user ${call}`), second)
  }
  const { share, calls } = recording.of('shop')
  assert.ok(share <= 1 / 16 && share >= 1 / 256, `${share}`)
  const recorded = recordedOf(recording) / calls
  assert.ok(recorded > share / 2 && recorded < share * 2, `${recorded} recorded, ${share} stated`)
  for (; second < 120; second++) recording.record(request('alice'), second)
  assert.equal(recording.of('shop').share, 1)
})

/** Adds to the number of calls of a key in a second. */
function addTo(keys: Map<string, Map<number, number>>, key: string, second: number, count: number): void {
  const seconds = keys.get(key) ?? new Map<number, number>()
  keys.set(key, seconds.set(second, (seconds.get(second) ?? 0) + count))
}

/** Returns a function that draws a whole number below its argument. */
function uniform(seed: number): (below: number) => number {
  let state = seed
  return below => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) | 0
    return (state >>> 8) % below
  }
}

test('a reader can rest while it passes records of another domain', () => {
  const recording = createCallRecording(16 * 1024 * 1024)
  for (let call = 0; call < 5_000; call++) {
    recording.record({ ...request(`user ${call}`), domain: 'other' }, call)
  }
  recording.record(request('alice'), 5_000)
  const steps = [...recording.of('shop').records()]
  assert.deepEqual(
    steps.map(({ call, records }) => [call?.request.descriptors[0]?.entries[0]?.value, records]),
    [...Array.from({ length: 5 }, () => [undefined, 1_000]), ['alice', 1]],
  )
})
