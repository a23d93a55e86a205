import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createPacer } from './pacer.ts'
import { evenSchedule, type Schedule } from './schedule.ts'

/** A pacer of one call a millisecond, with a clock and answers that the test controls. */
function startPacer({
  calls = 100,
  connections = 2,
  streams = 1000,
  schedule = evenSchedule(1000, calls, connections),
}: {
  readonly calls?: number
  readonly connections?: number
  readonly streams?: number
  readonly schedule?: Schedule
}) {
  let nowMs = 5000
  let ended = 0
  const sent: { readonly call: number; readonly connection: number; readonly atMs: number }[] = []
  const pacer = createPacer({
    schedule,
    startedMs: 5000,
    connections,
    streams,
    nowMs: () => nowMs,
    send: (connection, call) => sent.push({ call, connection, atMs: nowMs - 5000 }),
    onEnd: () => {
      ended += 1
    },
  })
  return {
    pacer,
    sent,
    ended: () => ended,
    at(ms: number) {
      nowMs = 5000 + ms
      pacer.tick()
    },
    answer: (...calls: number[]) => {
      for (const call of calls) pacer.answered(call)
    },
  }
}

test('each call is sent when it is due, to the connections in turn', () => {
  const { sent, at } = startPacer({})
  for (const ms of [0, 0.5, 1, 1.9, 2]) at(ms)
  assert.deepEqual(sent, [
    { call: 0, connection: 0, atMs: 0 },
    { call: 1, connection: 1, atMs: 1 },
    { call: 2, connection: 0, atMs: 2 },
  ])
})

test('a late tick sends all due calls, and their lateness counts', () => {
  const { pacer, sent, at, answer } = startPacer({})
  at(3.5)
  assert.deepEqual(
    sent.map(({ call }) => call),
    [0, 1, 2, 3],
  )
  answer(3, 0)
  assert.deepEqual([...pacer.latenciesMs()], [0.5, 3.5])
  assert.deepEqual([...pacer.latenessesMs()], [3.5, 2.5, 1.5, 0.5])
})

test('due calls wait in order on a connection without room, and other connections continue', () => {
  const dueMs = Float64Array.of(0, 1, 2, 3)
  const { sent, at, answer } = startPacer({
    streams: 1,
    schedule: { dueMs, connections: Uint16Array.of(1, 1, 1, 0) },
  })
  at(3)
  assert.deepEqual(
    sent.map(({ call }) => call),
    [0, 3],
  )
  answer(0, 1, 2)
  assert.deepEqual(
    sent.slice(2).map(({ call, connection }) => [call, connection]),
    [
      [1, 1],
      [2, 1],
    ],
  )
})

test('a pause of the server makes every call late that was due meanwhile', () => {
  const { pacer, sent, at, answer, ended } = startPacer({ calls: 100, connections: 1, streams: 1 })
  at(0)
  // The only answer arrives after 100 ms; by then all calls were due, and one was sent.
  for (let ms = 1; ms <= 100; ms++) at(ms)
  assert.equal(sent.length, 1)
  for (let call = 0; call < 100; call++) answer(call)
  const latencies = pacer.latenciesMs()
  assert.equal(latencies.length, 100)
  assert.deepEqual([latencies[0], latencies[50], latencies[99]], [100, 50, 1])
  assert.equal(ended(), 1)
})

test('a connection has never more calls in flight than its streams', () => {
  const { sent, at, answer } = startPacer({ connections: 2, streams: 2 })
  at(9)
  assert.deepEqual(
    sent.map(({ call }) => call),
    [0, 1, 2, 3],
  )
  answer(1)
  assert.deepEqual(sent.at(-1), { call: 5, connection: 1, atMs: 9 })
  answer(0, 2)
  assert.deepEqual(
    sent.slice(5).map(({ call }) => call),
    [4, 6],
  )
})

test('nothing is sent after the last call, and the end is reported once', () => {
  const { sent, at, answer, ended } = startPacer({ calls: 3 })
  at(50)
  assert.equal(sent.length, 3)
  answer(0, 2)
  assert.equal(ended(), 0)
  answer(1)
  assert.equal(ended(), 1)
})
