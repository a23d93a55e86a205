import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { joinPieces, type LastGoodEntry } from './last-good-entry.ts'
import { createLastGoodLayout, type ObjectData } from './last-good-layout.ts'

/** Simulates a store whose operator can be interrupted after any write. */
function openServer() {
  const stored = new Map<string, ObjectData>()
  const names = Array.from({ length: 4 }, (_, index) => `object-${index}`)
  const open = () => createLastGoodLayout(stored, names)
  let layout = open()
  return {
    stored,
    layout: () => layout,
    restart() {
      layout = open()
    },
    /** Writes at most this number of objects. */
    write(count = Number.POSITIVE_INFINITY) {
      for (let written = 0; written < count; written++) {
        const object = layout.nextUnwritten()
        if (object === undefined) return
        const data = layout.take(object)
        if (Object.keys(data).length === 0) stored.delete(object)
        else stored.set(object, data)
      }
    },
    read: () => joinPieces(new Map([...stored.values()].flatMap(data => Object.entries(data)))),
  }
}

const textOf = (chars: number, seed: number) => String(seed % 10).repeat(chars)

const step = fc.record({
  uid: fc.constantFrom('a', 'b', 'c', 'd'),
  chars: fc.constantFrom(0, 40, 30_000, 60_000, 70_000, 524_288, 1_048_580),
  isRemoval: fc.boolean(),
  /** If set, only the note of the present version changes, to this value. */
  note: fc.option(fc.nat(9), { nil: undefined }),
  writes: fc.nat(4),
  isCrash: fc.boolean(),
})

test('after an interruption each stored entry is the newest version or the one before it', () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 14 }), steps => {
      const server = openServer()
      /**
       * By uid, the versions that a read may find: the last one that was certainly written, and all later
       * ones.
       */
      const possible = new Map<string, (LastGoodEntry | undefined)[]>()
      steps.forEach(({ uid, chars, isRemoval, note, writes, isCrash }, index) => {
        const fresh = { generation: index + 1, text: textOf(chars, index) }
        const { generation, text } = (note && server.layout().entry(uid)) || fresh
        const entry = isRemoval ? undefined : { generation, text, goneSinceMs: note }
        if (entry === undefined) server.layout().remove(uid)
        else server.layout().put(uid, entry)
        possible.set(uid, [...(possible.get(uid) ?? [undefined]), entry])
        server.write(writes)
        const read = server.read()
        for (const [uid, versions] of possible) {
          const found = read.get(uid)
          const isOne = versions.some(
            version =>
              version?.generation === found?.generation &&
              version?.text === found?.text &&
              version?.goneSinceMs === found?.goneSinceMs,
          )
          assert.ok(isOne, `${uid} has the generation ${found?.generation}`)
        }
        if (!isCrash) return
        server.restart()
        for (const uid of possible.keys()) {
          const entry = server.layout().entry(uid)
          possible.set(uid, [entry])
        }
      })
      server.write()
      const read = server.read()
      for (const [uid, versions] of possible) assert.equal(read.get(uid)?.text, versions.at(-1)?.text)
      const keys = [...server.stored.values()].flatMap(data => Object.keys(data))
      assert.equal(
        keys.length,
        [...read.values()].flatMap(({ keys }) => keys).length,
        'nothing else is stored',
      )
    }),
    { numRuns: 300 },
  )
})

test('small entries share objects, and an edit writes one of them', () => {
  const server = openServer()
  for (let index = 0; index < 5_000; index++)
    server.layout().put(`uid-${index}`, { generation: 1, text: textOf(250, index) })
  server.write()
  assert.equal(server.stored.size, 4)
  server.layout().put('uid-77', { generation: 2, text: textOf(260, 3) })
  let writes = 0
  while (server.layout().nextUnwritten() !== undefined) {
    server.write(1)
    writes += 1
  }
  assert.equal(writes, 1)
})

test('data of another form in an object is dropped', () => {
  const server = openServer()
  server.stored.set('object-1', { 'someone elses': 'x', 'a.1.0.2': 'half', 'a.0.0.1': 'whole' })
  server.restart()
  assert.equal(server.layout().entry('a')?.text, 'whole')
  server.write()
  assert.deepEqual(server.stored.get('object-1'), { 'a.0.0.1': 'whole' })
})
