import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { EntryQueue } from './entry-queue.ts'
import { logEntryOverheadBytes } from './stream-log.ts'

interface Expected {
  readonly position: number
  readonly text: string
  readonly receivedMs: number
}

/** Compares a queue with a plain list of the expected entries. */
function assertHolds(queue: EntryQueue, expected: readonly Expected[]): void {
  assert.equal(queue.end - queue.first, expected.length)
  const sizes = expected.map(({ text }) => text.length + logEntryOverheadBytes)
  assert.equal(queue.bytes, sum(sizes))
  assert.equal(queue.at(queue.first - 1), undefined)
  assert.equal(queue.at(queue.end), undefined)
  for (const [index, { position, text, receivedMs }] of expected.entries()) {
    const entry = queue.at(position)
    assert.deepEqual({ ...entry, bytes: String(entry?.bytes) }, { position, bytes: text, receivedMs })
    assert.equal(queue.receivedMs(position), receivedMs)
    assert.equal(queue.bytesFrom(position), sum(sizes.slice(index)))
  }
}

const sum = (numbers: readonly number[]) => numbers.reduce((total, number) => total + number, 0)

const step = fc.oneof(
  { weight: 6, arbitrary: fc.nat({ max: 2000 }).map(bytes => ({ what: 'push', bytes }) as const) },
  { weight: 1, arbitrary: fc.nat({ max: 20_000 }).map(bytes => ({ what: 'push', bytes }) as const) },
  { weight: 5, arbitrary: fc.nat({ max: 3 }).map(count => ({ what: 'drop', count }) as const) },
  { weight: 1, arbitrary: fc.nat({ max: 80 }).map(count => ({ what: 'drop', count }) as const) },
  { weight: 1, arbitrary: fc.nat({ max: 9 }).map(ahead => ({ what: 'restart', ahead }) as const) },
)

test('the queue keeps the bytes of each entry after any pushes and drops', () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 300, size: 'max' }), steps => {
      const queue = new EntryQueue()
      const expected: Expected[] = []
      for (const [number, one] of steps.entries()) {
        if (one.what === 'push') {
          const text = `${number},`.repeat(one.bytes).slice(0, one.bytes)
          expected.push({ position: queue.end, text, receivedMs: number })
          queue.push(Buffer.from(text), number)
        } else if (one.what === 'drop') {
          expected.splice(0, one.count)
          for (let count = 0; count < one.count; count += 1) queue.dropOldest()
        } else {
          expected.length = 0
          queue.restartAt(queue.end + one.ahead)
        }
      }
      assertHolds(queue, expected)
      queue.seal()
      assertHolds(queue, expected)
    }),
    { numRuns: Number(process.env['FC_RUNS'] ?? 200) },
  )
})
