import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import type { DecisionRequest } from '../limiter/decision.ts'
import { createCallRecording } from './call-recording.ts'

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
        [...found.records()].map(({ request, seconds, count }) => [`${seconds} ${plain(request)}`, count]),
      )
      assert.deepEqual([...read], [...expected])
      const total = expected.values().reduce((sum, count) => sum + count, 0)
      assert.deepEqual([found.recorded, found.calls], [total, total])
    }),
    { numRuns },
  )
})

const request = (value: string): DecisionRequest => ({
  domain: 'shop',
  descriptors: [{ entries: [{ key: 'user', value }] }],
  hitsAddend: 0,
})

test('the memory is fixed: the latest calls are kept, also while others are read', () => {
  const recording = createCallRecording(64 * 1024)
  for (let call = 0; call < 50_000; call++) recording.record(request(`user ${call}`), call)
  const before = recording.of('shop')
  const reading = before.records()
  assert.equal(reading.next().value?.seconds, before.fromSeconds)
  for (let call = 50_000; call < 100_000; call++) recording.record(request(`user ${call}`), call)
  const seconds = [...reading].map(found => found.seconds)
  assert.equal(seconds.at(-1), 49_999)
  const after = recording.of('shop')
  const kept = [...after.records()]
  assert.equal(kept.at(-1)?.seconds, 99_999)
  assert.equal(kept.at(-1)?.request.descriptors[0]?.entries[0]?.value, 'user 99999')
  assert.ok(kept.length > 100 && kept.length < 10_000, `${kept.length}`)
  assert.equal(after.recorded, kept.length)
})

test('a busy key takes one record a second, and the calls of a second beyond the maximum are counted', () => {
  const recording = createCallRecording(64 * 1024, 4_000)
  for (let call = 0; call < 100_000; call++) recording.record(request('alice'), Math.floor(call / 10_000))
  const found = recording.of('shop')
  const { length, recorded, calls, fromSeconds } = found
  assert.deepEqual([length, recorded, calls, fromSeconds], [10, 40_000, 100_000, 0])
})

test('a call that is too long counts as not recorded', () => {
  const recording = createCallRecording(64 * 1024)
  recording.record(request('x'.repeat(5_000)), 1)
  recording.record(request('y'), 1)
  const { recorded, calls } = recording.of('shop')
  assert.deepEqual([recorded, calls], [1, 2])
})
