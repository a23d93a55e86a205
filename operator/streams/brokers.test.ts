import assert from 'node:assert/strict'
import { test } from 'node:test'
import { create, type MessageInitShape } from '@bufbuild/protobuf'
import { BrokerAnswerSchema } from '@tollway/proto/tollway/operator/v1/stream_reports'
import type { BrokerSession, Request } from './broker-session.ts'
import { createBrokers } from './brokers.ts'
import { rowsOf } from './stream-rows.ts'

type Answer = Pick<MessageInitShape<typeof BrokerAnswerSchema>, 'json' | 'problem'>

/** A broker that answers each request with this; undefined for no answer. */
function playBroker(uid: string, answer: (request: Request) => Answer | undefined): BrokerSession {
  return {
    ...{ id: uid, uid, name: `pod-${uid}`, close() {} },
    follow(id, request, onReport) {
      const given = answer(request)
      if (given !== undefined) {
        queueMicrotask(() =>
          onReport({ case: 'answer', value: create(BrokerAnswerSchema, { id, ...given }) }),
        )
      }
      return () => {}
    },
  }
}

const timing = { deadlineMs: 50, keepMs: 1_000 }
let nowMs = 0
const clock = { monotonicMs: () => nowMs }

function brokersOf(...sessions: readonly BrokerSession[]) {
  return createBrokers({ sessions: () => sessions, expected: () => [], clock, timing })
}

const wrong: readonly [name: string, json: string][] = [
  ['no JSON', 'hello'],
  ['null', 'null'],
  ['a list', '[]'],
  ['no requests', '{"total":3}'],
  ['requests of another form', '{"streams":{"length":5}}'],
]

for (const [name, json] of wrong) {
  test(`an answer with ${name} is a problem of its broker`, async () => {
    const good = playBroker('a', () => ({ json: '{"waitingPulls":0,"total":0,"streams":[]}' }))
    const looks = await brokersOf(
      playBroker('b', () => ({ json })),
      good,
    ).list()
    assert.deepEqual(
      looks.map(look => [look.address, 'problem' in look ? look.problem : '']),
      [
        ['pod-a', ''],
        ['pod-b', 'answers with no list of requests'],
      ],
    )
  })
}

test('fields of a wrong type do not fail the list', async () => {
  const streams = [
    { key: 'k', streamId: 1, ageMs: 'x', ended: 'no', end: 7, producer: {}, consumers: [null, { peer: [] }] },
    null,
    'request',
  ]
  const [look] = await brokersOf(playBroker('a', () => ({ json: JSON.stringify({ streams }) }))).list()
  assert.ok(look !== undefined && 'page' in look)
  assert.equal(look.page.total, 3)
  const [row] = rowsOf({ brokers: [look] })
  assert.partialDeepStrictEqual(row, { state: 'running', producers: [] })
})

test('lists of many brokers share a number of bytes, and equal calls share a list for a second', async () => {
  const asked: number[] = []
  const list = (request: Request) => {
    asked.push(request.case === 'list' ? (request.value.maxBytes ?? 0) : 0)
    return { json: '{"streams":[]}' }
  }
  const brokers = brokersOf(...Array.from({ length: 64 }, (_, index) => playBroker(`${index}`, list)))
  const first = brokers.list()
  assert.equal(brokers.list(), first)
  assert.equal((await first).length, 64)
  assert.deepEqual(new Set(asked), new Set([512 * 1024]))
  nowMs += 1_000
  await brokers.list()
  assert.equal(asked.length, 128)
  await brokersOf(playBroker('a', list)).list()
  assert.equal(asked.at(-1), 3 * 1024 * 1024)
})

const unknown = playBroker('a', () => ({ json: '' }))
const silent = playBroker('b', () => undefined)
const busy = playBroker('c', () => ({ problem: '4 previews are being made' }))
const known = playBroker('d', () => ({ json: '{"key":"k","preview":null}' }))
const hostile = playBroker('e', () => ({ json: `{"preview":{},"text":"${'x'.repeat(200_000)}"}` }))

const previews: readonly [sessions: readonly BrokerSession[], result: object][] = [
  [[], { unknown: true }],
  [[unknown], { unknown: true }],
  [[unknown, silent, busy, known], { preview: { key: 'k', preview: null } }],
  [[unknown, silent], { problem: 'pod-b: does not answer within 0.05 s' }],
  [[unknown, busy], { problem: 'pod-c: 4 previews are being made' }],
  [[hostile], { problem: 'pod-e: answers with no preview' }],
]

for (const [sessions, result] of previews) {
  test(`a preview of ${sessions.map(({ name }) => name).join() || 'no broker'}`, async () => {
    assert.deepEqual(await brokersOf(...sessions).preview('k'), result)
  })
}

test('a broker that runs without a session is named with the cause', async () => {
  const expected = () => [
    { name: 'pod-a', uid: 'a', reason: '' },
    { name: 'pod-b', uid: 'b', reason: 'starting' },
    { name: 'pod-c', uid: 'c', reason: '' },
  ]
  const sessions = () => [playBroker('a', () => ({ json: '{"streams":[]}' }))]
  const looks = await createBrokers({ sessions, expected, clock, timing }).list()
  assert.deepEqual(
    looks.map(look => ('problem' in look ? `${look.address} ${look.problem}` : look.address)),
    ['pod-a', 'pod-b starting', 'pod-c has no session with the operator'],
  )
})
