import assert from 'node:assert/strict'
import { test } from 'node:test'
import { create, type MessageInitShape } from '@bufbuild/protobuf'
import { BrokerAnswerSchema } from '@tollway/proto/tollway/operator/v1/stream_reports'
import type { BrokerSession, BrokerSessionRequest } from './broker-session.ts'
import { type Brokers, createBrokers, shareLists } from './brokers.ts'
import { mergeRows } from './stream-rows.ts'

type Answer = Pick<MessageInitShape<typeof BrokerAnswerSchema>, 'json' | 'problem'>

/** A broker that answers each request with this; undefined for no answer. */
function playBroker(
  uid: string,
  answer: (request: BrokerSessionRequest) => Answer | undefined,
): BrokerSession {
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

const deadlineMs = 50

function brokersOf(...sessions: readonly BrokerSession[]) {
  return createBrokers({ sessions: () => sessions, expected: () => [], deadlineMs })
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
    const results = await brokersOf(
      playBroker('b', () => ({ json })),
      good,
    ).list()
    assert.deepEqual(
      results.map(result => [result.address, 'problem' in result ? result.problem : '']),
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
  const [result] = await brokersOf(playBroker('a', () => ({ json: JSON.stringify({ streams }) }))).list()
  assert.ok(result !== undefined && 'page' in result)
  assert.equal(result.page.total, 3)
  const [row] = mergeRows({ brokers: [result] })
  assert.partialDeepStrictEqual(row, { state: 'running', producers: [] })
})

test('lists of many brokers share a number of bytes', async () => {
  const asked: number[] = []
  const list = (request: BrokerSessionRequest) => {
    asked.push(request.case === 'list' ? (request.value.maxBytes ?? 0) : 0)
    return { json: '{"streams":[]}' }
  }
  const many = Array.from({ length: 64 }, (_, index) => playBroker(`${index}`, list))
  assert.equal((await brokersOf(...many).list()).length, 64)
  assert.deepEqual(new Set(asked), new Set([512 * 1024]))
  await brokersOf(playBroker('a', list)).list()
  assert.equal(asked.at(-1), 3 * 1024 * 1024)
})

test('callers share a list that is being read, and one for a second after its begin', async () => {
  let nowMs = 0
  let asked = 0
  let answer = () => {}
  const slow: Brokers = {
    preview: async () => ({ unknown: true }),
    list: () => {
      asked += 1
      return new Promise(resolve => {
        answer = () => resolve([])
      })
    },
  }
  const brokers = shareLists(slow, { monotonicMs: () => nowMs })
  const first = brokers.list()
  nowMs = 2_500
  assert.equal(brokers.list(), first)
  answer()
  await first
  const second = brokers.list()
  answer()
  await second
  nowMs += 999
  assert.equal(brokers.list(), second)
  nowMs += 1
  void brokers.list()
  assert.equal(asked, 3)
})

const request = '{"key":"k","consumers":[{"peer":"p"}]}'
const hostileLists: readonly [name: string, json: string, requests: number, consumers: number][] = [
  ['a million requests', `{"streams":[${'0,'.repeat(1_000_000)}0]}`, 1_000, 0],
  ['a million consumers', `{"streams":[{"consumers":[${'0,'.repeat(1_000_000)}0]}]}`, 1, 50_000],
  ['infinite numbers', '{"total":1e999,"streams":[{"ageMs":1e999,"messages":1e999,"bytes":-1}]}', 1, 0],
  ['a usual request', `{"streams":[${request}]}`, 1, 1],
]

for (const [name, json, requests, consumers] of hostileLists) {
  test(`a list with ${name} has bounded numbers of requests and consumers`, async () => {
    const [result] = await brokersOf(playBroker('a', () => ({ json }))).list()
    assert.ok(result !== undefined && 'page' in result)
    const { streams } = result.page
    assert.equal(streams.length, requests)
    assert.equal(
      streams.reduce((sum, one) => sum + one.consumers.length, 0),
      consumers,
    )
    // Infinity would be null in the JSON of the API.
    assert.doesNotMatch(JSON.stringify(result.page), /"(total|ageMs)":null|"(messages|bytes)":-/)
  })
}

test('an answer that is longer than asked for is a problem of its broker', async () => {
  const long = playBroker('a', () => ({ json: `{"streams":[],"pad":"${'x'.repeat(4_000_000)}"}` }))
  const [result] = await brokersOf(long).list()
  assert.deepEqual(result, { address: 'pod-a', problem: 'answers with more than 3145728 bytes' })
})

const unknown = playBroker('a', () => ({ json: '' }))
const silent = playBroker('b', () => undefined)
const busy = playBroker('c', () => ({ problem: '4 previews are being made' }))
const known = playBroker('d', () => ({ json: '{"key":"k","preview":null}' }))
const long = playBroker('e', () => ({ json: `{"key":"k","preview":{},"pad":"${'x'.repeat(200_000)}"}` }))
const other = playBroker('f', () => ({ json: '{"key":"other","preview":{}}' }))
const noPreview = { streamId: '', requestId: '', targetObjectId: '', ended: false, preview: null }

const previews: readonly [sessions: readonly BrokerSession[], result: object][] = [
  [[], { unknown: true }],
  [[unknown], { unknown: true }],
  [[unknown, silent, busy, known], { preview: { key: 'k', ...noPreview } }],
  [[unknown, silent], { problem: 'pod-b: does not answer within 0.05 s' }],
  [[unknown, busy], { problem: 'pod-c: 4 previews are being made' }],
  [[long], { problem: 'pod-e: answers with more than 131072 bytes' }],
  [[other], { problem: 'pod-f: answers with no preview of the request' }],
]

for (const [sessions, result] of previews) {
  test(`a preview of ${sessions.map(({ name }) => name).join() || 'no broker'}`, async () => {
    assert.deepEqual(await brokersOf(...sessions).preview('k'), result)
  })
}

test('a preview does not wait for a broker that hangs, once another one has the request', async () => {
  const brokers = createBrokers({ sessions: () => [silent, known], expected: () => [], deadlineMs: 600_000 })
  assert.ok('preview' in (await brokers.preview('k')))
})

test('the fields of a preview are read one by one, and lists are cut', async () => {
  const json = JSON.stringify({
    ...{ key: 'k', ended: 'yes', streamId: {}, secret: 'x' },
    preview: {
      ...{ seconds: { from: 'a', to: 2 }, messages: -1, times: [1, 'x'], more: 1 },
      audio: { samplesPerSecond: 1.5, channelCount: '2', envelope: [[0, 1, 2], [0], 'x', null] },
      blendShapes: [{ name: 'n'.repeat(100), values: Array(500).fill(1) }, 7, ...Array(30).fill({})],
    },
  })
  const result = await brokersOf(playBroker('a', () => ({ json }))).preview('k')
  assert.ok('preview' in result && result.preview.preview !== null)
  const { preview, ...ids } = result.preview
  assert.deepEqual(ids, { key: 'k', streamId: '', requestId: '', targetObjectId: '', ended: false })
  const { blendShapes, ...rest } = preview
  assert.deepEqual(rest, {
    ...{ seconds: null, messages: 0, times: [1, 0] },
    audio: { samplesPerSecond: 1, channelCount: 0, envelope: [[0, 1], null, null, null] },
  })
  assert.deepEqual(
    [blendShapes.length, blendShapes[0]?.name.length, blendShapes[0]?.values.length],
    [16, 64, 200],
  )
})

test('a broker that runs without a session is named with the cause', async () => {
  const expected = () => [
    { name: 'pod-a', uid: 'a', reason: '' },
    { name: 'pod-b', uid: 'b', reason: 'starting' },
    { name: 'pod-c', uid: 'c', reason: '' },
  ]
  const sessions = () => [playBroker('a', () => ({ json: '{"streams":[]}' }))]
  const results = await createBrokers({ sessions, expected, deadlineMs }).list()
  assert.deepEqual(
    results.map(result => ('problem' in result ? `${result.address} ${result.problem}` : result.address)),
    ['pod-a', 'pod-b starting', 'pod-c has no session with the operator'],
  )
})
