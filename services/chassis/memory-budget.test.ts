import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { MemoryBudget, type Reservation } from './memory-budget.ts'

/** Creates a budget with this limit, and the list of the requests that it rejected, by name and in order. */
function openMemory(maxBytes: number) {
  const memory = new MemoryBudget(maxBytes)
  const rejected: string[] = []
  return { memory, rejected, open: (name: string) => memory.reserve(() => rejected.push(name)) }
}

test('beyond the limit the newest requests are rejected, until the others fit', () => {
  const { memory, rejected, open } = openMemory(10_000)
  const [a, b, c] = [open('a'), open('b'), open('c')]
  a.resize(4_000)
  b.resize(4_000)
  c.resize(2_000)
  assert.deepEqual(rejected, [])
  a.resize(5_000)
  assert.deepEqual(rejected, ['c'])
  a.resize(9_000)
  assert.deepEqual(rejected, ['c', 'b'])
  assert.equal(memory.bytes, 9_000)
  open('d').resize(2_000)
  assert.deepEqual(rejected, ['c', 'b', 'd'])
})

test('a request that grows past the limit rejects newer ones, starting with the newest', () => {
  const { rejected, open } = openMemory(60_000)
  const [oldest, middle, newest] = [open('oldest'), open('middle'), open('newest')]
  oldest.resize(1_025)
  middle.resize(8_777)
  newest.resize(1_025)
  oldest.resize(51_224)
  assert.deepEqual(rejected, ['newest', 'middle'])
})

test('a tiny request is never rejected', () => {
  const memory = new MemoryBudget(10_000)
  memory.reserve(() => {}).resize(10_000)
  const short = memory.reserve(() => assert.fail('the request was rejected'))
  short.resize(1024)
  assert.equal(memory.bytes, 10_000)
})

test('the oldest request can always grow to the limit, and the sum never exceeds it', () => {
  const steps = fc.array(fc.record({ request: fc.nat(9), bytes: fc.nat(60_000) }), { maxLength: 200 })
  fc.assert(
    fc.property(steps, all => {
      const memory = new MemoryBudget(60_000)
      /** The requests in the order in which they began to use memory. */
      const holding: number[] = []
      const requests: Reservation[] = Array.from({ length: 10 }, (_, index) =>
        memory.reserve(() => {
          assert.equal(holding.at(-1), index, 'the newest is rejected')
          holding.pop()
        }),
      )
      for (const { request, bytes } of all) {
        const place = holding.indexOf(request)
        if (bytes <= 1024 && place >= 0) holding.splice(place, 1)
        else if (bytes > 1024 && place < 0) holding.push(request)
        const [oldest] = holding
        requests[request]?.resize(bytes)
        assert.ok(memory.bytes <= 60_000)
        assert.equal(holding[0], oldest, 'the oldest is not affected')
      }
      for (const request of requests) request.resize(0)
      assert.equal(memory.bytes, 0)
    }),
  )
})
