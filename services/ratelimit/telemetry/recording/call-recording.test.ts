import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import type { DecisionRequest } from '../../limiter/decision.ts'
import { readPart, takePart } from './call-parts.ts'
import { CallRecording } from './call-recording.ts'
import type { ReadStep, RecordedCall } from './generation.ts'

const numRuns = Number(process.env['FC_RUNS'] ?? 200)
const text = fc.oneof(fc.constantFrom('', 'a', 'user', 'bob'), fc.string({ unit: 'binary', maxLength: 6 }))
const hits = fc.constantFrom(0, 1, 7, 2 ** 32 + 5, 2 ** 53 - 1)
const descriptor = fc.record({
  entries: fc.array(fc.record({ key: text, value: text }), { minLength: 1, maxLength: 3 }),
  hitsAddend: fc.option(hits, { nil: undefined }),
  givesBack: fc.constantFrom(undefined, true),
})
const call: fc.Arbitrary<DecisionRequest> = fc.record(
  {
    domain: fc.constantFrom('shop', 'other', ''),
    descriptors: fc.array(descriptor, { minLength: 1, maxLength: 3 }),
    hitsAddend: hits,
    purpose: fc.constantFrom('check', 'report'),
  },
  { requiredKeys: ['domain', 'descriptors', 'hitsAddend'] },
)

/** Opens a recording, and a function that records calls at whole seconds. */
function openRecording(bytes: number, limits?: ConstructorParameters<typeof CallRecording>[2]) {
  const recording = new CallRecording(bytes, 0, limits)
  return Object.assign(recording, {
    at: (request: DecisionRequest, second: number) => recording.record(request, second * 1000),
  })
}

function plain({ domain, descriptors, hitsAddend, purpose }: DecisionRequest): string {
  const parts = descriptors.map(each => [each.entries, each.hitsAddend ?? null, each.givesBack ?? false])
  return JSON.stringify([domain, hitsAddend, purpose ?? 'decision', parts])
}

test('every call of a domain is read as it was recorded', () => {
  const someCalls = fc.array(fc.tuple(call, fc.nat({ max: 2 })), { maxLength: 60 })
  fc.assert(
    fc.property(someCalls, recorded => {
      const recording = openRecording(1024 * 1024)
      const expected: string[] = []
      let second = 1_000_000
      for (const [request, later] of recorded) {
        second += later
        recording.at(request, second)
        if (request.domain === 'shop') expected.push(`${second} ${plain(request)}`)
      }
      const found = recording.of('shop')
      const list = (calls: readonly RecordedCall[]) =>
        calls
          .flatMap(({ request, ms, count }) =>
            Array.from({ length: count }, () => `${ms / 1000} ${plain(request)}`),
          )
          .sort()
      expected.sort()
      assert.deepEqual(list(callsIn(found.records())), expected)
      const { calls, isLast } = takePart(found.records())
      assert.deepEqual([list(readPart(calls, 'shop')), isLast], [expected, true], 'for another process')
      assert.deepEqual([found.halvings, found.calls], [0, expected.length])
    }),
    { numRuns },
  )
})

test('equal calls of a millisecond are one record, unless the order matters', () => {
  const alice = request('alice')
  const bob = request('bob')
  const more = { ...alice, hitsAddend: 2 }
  const same = { ...alice, descriptors: alice.descriptors.map(each => ({ ...each, hitsAddend: 1 })) }
  const back = { ...same, descriptors: same.descriptors.map(each => ({ ...each, givesBack: true })) }
  const check: DecisionRequest = { ...alice, purpose: 'check' }
  const report: DecisionRequest = { ...alice, purpose: 'report' }
  const cases: readonly [readonly DecisionRequest[], ...(readonly [DecisionRequest, number])[]][] = [
    [
      [alice, bob, alice, bob],
      [alice, 2],
      [bob, 2],
    ],
    [
      [same, alice, same],
      [same, 2],
      [alice, 1],
    ],
    [
      [alice, back, alice, alice],
      [alice, 1],
      [back, 1],
      [alice, 2],
    ],
    [
      [back, alice, back],
      [back, 1],
      [alice, 1],
      [back, 1],
    ],
    [
      [alice, more, more, alice],
      [alice, 1],
      [more, 2],
      [alice, 1],
    ],
    [
      [check, check, report, report, check],
      [check, 2],
      [report, 2],
      [check, 1],
    ],
    [
      [bob, report, bob],
      [bob, 1],
      [report, 1],
      [bob, 1],
    ],
  ]
  for (const [calls, ...records] of cases) {
    const recording = openRecording(1024 * 1024)
    for (const each of calls) recording.at(each, 1)
    const read = callsIn(recording.of('shop').records())
    assert.deepEqual(
      read.map(({ request, count }) => [plain(request), count]),
      records.map(([request, count]) => [plain(request), count]),
    )
  }
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
  const recording = openRecording(64 * 1024)
  for (let call = 0; call < 50_000; call++) recording.at(request(`user ${call}`), call)
  const before = recording.of('shop')
  const release = before.hold()
  const reading = before.records()
  assert.equal(reading.next().value?.call?.ms, before.fromSeconds * 1000)
  for (let call = 50_000; call < 100_000; call++) recording.at(request(`user ${call}`), call)
  assert.equal(callsIn(reading).at(-1)?.ms, 49_999_000)
  release()
  const after = recording.of('shop')
  const kept = callsIn(after.records())
  assert.equal(kept.at(-1)?.ms, 99_999_000)
  assert.equal(kept.at(-1)?.request.descriptors[0]?.entries[0]?.value, 'user 99999')
  assert.ok(kept.length > 100 && kept.length < 10_000, `${kept.length}`)
  assert.deepEqual([after.halvings, after.isWhole, before.isWhole], [0, false, false])
})

test('a busy key takes one record a second', () => {
  const recording = openRecording(64 * 1024)
  for (let call = 0; call < 100_000; call++) recording.at(request('alice'), Math.floor(call / 10_000))
  const { length, calls, halvings, fromSeconds } = recording.of('shop')
  assert.deepEqual(
    [length, recordedOf(recording), calls, halvings, fromSeconds],
    [10, 100_000, 100_000, 0, 0],
  )
})

test('beyond the memory, times become whole seconds before keys are halved, and exact again later', () => {
  const recording = new CallRecording(256 * 1024, 0, { callsPerSecond: 100_000, seconds: 10 })
  let second = 0
  const each = (calls: number) => {
    for (let call = 0; call < calls; call++) {
      recording.record(request(`user ${call % 20}`), second * 1000 + Math.floor((call * 1000) / calls))
    }
    second += 1
  }
  each(400)
  assert.deepEqual([recording.of('shop').resolutionMs, recording.of('shop').length], [1, 400])
  while (second < 30) each(2_000)
  const { resolutionMs, halvings, length, calls } = recording.of('shop')
  assert.deepEqual([resolutionMs, halvings, recordedOf(recording)], [1000, 0, calls])
  assert.ok(length < calls / 4, `${length} records of ${calls} calls`)
  while (second < 60) each(20)
  assert.equal(recording.of('shop').resolutionMs, 1)
})

test('a recording is whole until calls are overwritten, and begins with the process', () => {
  const recording = new CallRecording(64 * 1024, 7)
  recording.record(request('alice'), 9_500)
  assert.deepEqual([recording.of('shop').fromSeconds, recording.of('shop').isWhole], [7, true])
  for (let call = 0; call < 50_000; call++) recording.record(request(`user ${call}`), 10_000 + call * 1000)
  const { fromSeconds, isWhole } = recording.of('shop')
  assert.ok(!isWhole && fromSeconds > 10, `${fromSeconds}`)
})

test('calls after a reading began are not added to the records that it reads', () => {
  const recording = openRecording(64 * 1024)
  recording.at(request('alice'), 1)
  const before = recording.of('shop').records()
  recording.at(request('alice'), 1)
  assert.deepEqual(
    callsIn(before).map(({ count }) => count),
    [1],
  )
  assert.equal(recordedOf(recording), 2)
})

test('a call that is too long counts as not recorded', () => {
  const recording = openRecording(64 * 1024)
  recording.at(request('x'.repeat(5_000)), 1)
  recording.at(request('y'), 1)
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
      const recording = openRecording(64 * 1024, { callsPerSecond, seconds: 10 })
      const called = new Map<string, Map<number, number>>()
      const draw = uniform(seed)
      for (let second = 0; second < seconds; second++) {
        for (let call = 0; call < rate; call++) {
          const value = `user ${draw(keys)}`
          recording.at(request(value), second)
          addTo(called, value, second, 1)
        }
      }
      const found = recording.of('shop')
      if (found.halvings > 0) sampled += 1
      const from = found.fromSeconds
      const read = new Map<string, Map<number, number>>()
      for (const { request: call, ms, count } of callsIn(found.records())) {
        addTo(read, call.descriptors[0]?.entries[0]?.value ?? '', ms / 1000, count)
      }
      // A generation can begin within a second. It then lacks the calls of that second that came before it.
      const after = (calls: ReadonlyMap<number, number> = new Map()) =>
        [...calls].filter(([second]) => second > from)
      for (const [value, calls] of read) assert.deepEqual(after(calls), after(called.get(value)), value)
      if (found.halvings === 0 && from === 0) assert.equal(read.size, called.size)
    }),
    { numRuns },
  )
  assert.ok(sampled > numRuns / 10, `${sampled} of ${numRuns} recordings were sampled`)
})

test('the recorded share of many keys is near the stated one, and grows again when the load ends', () => {
  const recording = openRecording(1024 * 1024, { callsPerSecond: 1_000, seconds: 10 })
  let second = 0
  for (; second < 20; second++) {
    for (let call = 0; call < 20_000; call++) recording.at(request(`user ${call}`), second)
  }
  const { halvings, calls } = recording.of('shop')
  const share = 2 ** -halvings
  assert.ok(share <= 1 / 16 && share >= 1 / 256, `${share}`)
  const recorded = recordedOf(recording) / calls
  assert.ok(recorded > share / 2 && recorded < share * 2, `${recorded} recorded, ${share} stated`)
  for (; second < 120; second++) recording.at(request('alice'), second)
  assert.equal(recording.of('shop').halvings, 0)
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
  const recording = openRecording(16 * 1024 * 1024)
  for (let call = 0; call < 5_000; call++) {
    recording.at({ ...request(`user ${call}`), domain: 'other' }, call)
  }
  recording.at(request('alice'), 5_000)
  const steps = [...recording.of('shop').records()]
  assert.deepEqual(
    steps.map(({ call, records }) => [call?.request.descriptors[0]?.entries[0]?.value, records]),
    [...Array.from({ length: 5 }, () => [undefined, 1_000]), ['alice', 1]],
  )
})
