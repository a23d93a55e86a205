import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { ByteBudget } from './byte-budget.ts'
import { Ring } from './ring.ts'
import { logEntryOverheadBytes, type RingCursor, type RingLimits } from './stream-log.ts'

const header = Buffer.from('header')

function createRing(limits: Partial<RingLimits> = {}, budget = new ByteBudget(1_000_000)) {
  const time = { ms: 1_000_000 }
  const ring = new Ring({
    header,
    openedMs: time.ms,
    limits: { bytes: 1_000_000, ms: 30_000, keepMs: 0, whenFull: 'trim', ...limits },
    clock: { nowMs: () => time.ms },
    budget,
  })
  return { ring, time, append: (size = 0) => ring.append(Buffer.alloc(size), time.ms) }
}

const silent = { onReadable() {} }

test('entries that are too old are dropped', () => {
  const { ring, time, append } = createRing({ ms: 1000 })
  append()
  time.ms += 600
  append()
  time.ms += 600
  append()
  assert.equal(ring.entries, 2)
  time.ms += 5000
  append()
  assert.equal(ring.entries, 1)
})

test('a cursor can seek the entries of the last milliseconds', () => {
  const { ring, time, append } = createRing()
  for (let count = 0; count < 10; count += 1) {
    append()
    time.ms += 100
  }
  const cursor = ring.read(silent)
  const seekPosition = (lastMs: number) => {
    cursor.seek({ lastMs })
    return cursor.position
  }
  assert.deepEqual([0, 100, 250, 1000, 9999].map(seekPosition), [11, 10, 9, 1, 1])
})

test('only a cursor that has taken every entry is notified, once', () => {
  const { ring, append } = createRing()
  let news = 0
  const cursor = ring.read({ onReadable: () => (news += 1) })
  append()
  assert.equal(news, 0)
  while (cursor.next());
  append()
  append()
  assert.equal(news, 1)
  while (cursor.next());
  ring.finish({ how: 'completed' })
  assert.equal(news, 2)
})

test('an ended request keeps its messages, but releases unused memory', () => {
  const { ring, time } = createRing({ bytes: 2 * logEntryOverheadBytes + 10 })
  const memory = Buffer.from('abcdefgh'.repeat(2048))
  for (let at = 0; at < 4; at += 1) ring.append(memory.subarray(at, at + 2), time.ms)
  const before = { entries: ring.entries, bytes: ring.bytes }
  ring.finish({ how: 'completed' })
  assert.deepEqual({ entries: ring.entries, bytes: ring.bytes }, before)
  const cursor = ring.read(silent)
  cursor.seek('oldest')
  const read: unknown[] = []
  for (let entry = cursor.next(); entry; entry = cursor.next()) {
    read.push([entry.position, Buffer.from(entry.bytes).toString(), entry.bytes.buffer.byteLength])
  }
  assert.deepEqual(read, [
    [3, 'cd', 4],
    [4, 'de', 4],
  ])
  assert.deepEqual(cursor.end, { how: 'completed' })
})

test('missing entries of a ring that is filled from another source are a gap', () => {
  const { ring, append } = createRing()
  const cursor = ring.read(silent)
  cursor.next()
  append()
  ring.skipTo(10)
  append()
  assert.equal(cursor.next()?.position, 10)
  assert.equal(cursor.takeGap(), 9)
  assert.equal(ring.nextPosition, 11)
})

test('a producer that is blocked by old unread entries continues when they are read', () => {
  const { ring, time, append } = createRing({ ms: 1000, whenFull: 'wait' })
  let room = 0
  ring.onRoom(() => (room += 1))
  const cursor = ring.read(silent)
  cursor.next()
  append()
  time.ms += 2000
  assert.equal(append(), false)
  cursor.next()
  assert.equal(room, 1)
  assert.equal(ring.full, false)
})

/** Compares a ring with lists that are searched from the start each time. */
const sizes = fc.integer({ min: 0, max: 300 })
const command = fc.oneof(
  { weight: 6, arbitrary: fc.record({ do: fc.constant('append'), size: sizes }) },
  { weight: 6, arbitrary: fc.record({ do: fc.constant('take'), who: fc.nat(5), count: fc.nat(4) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('join') }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('leave'), who: fc.nat(5) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('seek'), who: fc.nat(5), to: fc.nat(30) }) },
)
type Command = { do: string; size?: number; who?: number; count?: number; to?: number }

interface Reader {
  readonly cursor: RingCursor
  next: number
  lost: number
}

/**
 * Runs the commands and checks that each reader gets every position once, or a gap that includes it. With
 * `wait` nothing is dropped.
 */
function runCommands(commands: readonly Command[], whenFull: 'trim' | 'wait'): void {
  const limit = 3000
  const budget = new ByteBudget(2000)
  const { ring, append } = createRing({ bytes: limit, whenFull }, budget)
  const readers: Reader[] = []
  let appended = 0
  let roomTold = true
  ring.onRoom(() => (roomTold = true))
  for (const { do: what, size = 0, who = 0, count = 0, to = 0 } of commands) {
    const reader = readers[who]
    if (what === 'append' && !ring.full) {
      roomTold = append(size)
      appended += 1
    } else if (what === 'join' && readers.length < 6) {
      readers.push({ cursor: ring.read(silent), next: 0, lost: 0 })
    } else if (what === 'leave' && reader) {
      readers.splice(who, 1)
      reader.cursor.close()
    } else if (what === 'seek' && reader) {
      reader.cursor.seek(to)
      reader.next = reader.cursor.position
      assert.ok(reader.next >= Math.min(to, appended + 1))
    } else if (what === 'take' && reader) {
      for (let taken = 0; taken < count; taken += 1) takeOne(ring, reader, appended)
    }
    assert.ok(ring.bytes <= limit || ring.entries <= 1 || ring.full)
    assert.ok(ring.bytes <= limit + 300 + logEntryOverheadBytes)
    assert.equal(ring.full, !roomTold)
    assert.equal(budget.used, ring.bytes)
    const places = readers.map(({ cursor }) => cursor.position)
    const slowest = places.length === 0 ? undefined : Math.min(appended + 1, ...places)
    if (whenFull === 'wait') assert.equal(ring.slowestPosition, slowest)
  }
}

function takeOne(ring: Ring, reader: Reader, appended: number): void {
  const joined = reader.next === 0
  const gap = reader.cursor.takeGap()
  const entry = reader.cursor.next()
  if (entry === undefined) {
    assert.equal(gap, 0)
    assert.ok(reader.next >= appended + 1)
    return
  }
  assert.equal(entry.position, reader.next + gap)
  assert.ok(gap === 0 || !joined)
  assert.ok(entry.position === 0 || entry.position >= ring.nextPosition - ring.entries - 1)
  reader.next = entry.position + 1
}

const numRuns = Number(process.env['FC_RUNS'] ?? 300)

for (const whenFull of ['trim', 'wait'] as const) {
  test(`every cursor sees each entry or learns of it: ${whenFull}`, () => {
    fc.assert(
      fc.property(fc.array(command, { minLength: 30, maxLength: 120, size: 'max' }), commands =>
        runCommands(commands, whenFull),
      ),
      { numRuns },
    )
  })
}

test('a released ring without cursors counts once in the budget, even if it is read again', () => {
  const budget = new ByteBudget(1_000_000)
  const { ring, append } = createRing({}, budget)
  createRing({}, budget)
  createRing({}, budget)
  append(100)
  ring.release()
  ring.read(silent).close()
  assert.deepEqual({ used: budget.used, share: budget.share }, { used: 0, share: budget.limit / 2 })
})
