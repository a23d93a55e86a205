import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { create, fromBinary, type MessageInitShape, toBinary } from '@bufbuild/protobuf'
import { systemClock } from '@tollway/chassis/clock.ts'
import { type Log, silentLog } from '@tollway/chassis/log/log.ts'
import { createGrpcServer } from '@tollway/grpc/server/create-server.ts'
import type { AnyMethod, Method } from '@tollway/grpc/server.ts'
import {
  type BrokerReport,
  BrokerReportSchema,
  type BrokerRequest,
  BrokerRequestSchema,
} from '@tollway/proto/tollway/operator/v1/stream_reports'
import { FeedConnection } from '@tollway/xds-client/feed-connection.ts'
import { waitFor } from '../../../test/support/wait-for.ts'
import { type BrokerPages, createOperatorAnswers } from './answer-operator.ts'

type Request = NonNullable<MessageInitShape<typeof BrokerRequestSchema>['request']>

const withRequest = (request: Request | undefined) =>
  create(BrokerRequestSchema, request === undefined ? {} : { request })

/**
 * A fake operator. On each stream, it sends these requests, records all reports, and ends the stream after
 * `answers` answers.
 */
function askingOperator(requests: readonly (Request | undefined)[], answers: number) {
  const streams: BrokerReport['report'][][] = []
  const method: Method<BrokerReport, BrokerRequest> = {
    kind: 'bidi',
    path: '/tollway.operator.v1.StreamReports/Session',
    decode: bytes => fromBinary(BrokerReportSchema, bytes),
    encode: request => toBinary(BrokerRequestSchema, request),
    async *handle(reports) {
      const received: BrokerReport['report'][] = []
      streams.push(received)
      let asked = false
      for await (const { report } of reports) {
        received.push(report)
        if (!asked) yield* requests.map(withRequest)
        asked = true
        if (received.length > answers) return
      }
    },
  }
  return { method, streams }
}

async function listen(t: TestContext, methods: readonly AnyMethod[], port = 0) {
  const server = createGrpcServer({ methods, onDefect: (_, error) => assert.fail(`${error}`) })
  const stop = () => server.drain(0)
  t.after(stop)
  const bound = await server.listen({ host: '127.0.0.1', port })
  assert.ok('port' in bound)
  return { port: bound.port, stop }
}

const identity = { uid: 'u-1', pod: 'broker-0', namespace: 'local' }

function startAnswers(t: TestContext, port: number, pages: Partial<BrokerPages> = {}) {
  const warnings: string[] = []
  const log: Log = { ...silentLog, warn: text => void warnings.push(text) }
  const connection = new FeedConnection({ server: `127.0.0.1:${port}`, maxReceiveBytes: 1024 * 1024 })
  const answers = createOperatorAnswers({
    ...{ connection, identity, log, clock: systemClock, random: () => 0.5 },
    pages: { list: () => '{"streams":[]}', preview: async () => undefined, ...pages },
    timing: { backoff: { initialMs: 10, maxMs: 50 }, unsupportedMs: 10 },
  })
  answers.start()
  t.after(async () => {
    await answers.stop()
    connection.close()
  })
  return { warnings }
}

const list = (id: bigint): Request => ({ case: 'list', value: { id, maxBytes: 77 } })
const preview = (id: bigint, key: string): Request => ({ case: 'preview', value: { id, key } })

/** Returns the answer in short form: `3 {"key":"a"} problem`. */
const inShort = (report: BrokerReport['report'] | undefined) =>
  report?.case === 'answer' ? `${report.value.id} ${report.value.json} ${report.value.problem}` : ''

test('a broker names itself, and answers each request with its id, on every stream', async t => {
  const requests = [list(1n), undefined, preview(2n, 'a'), preview(3n, 'b'), preview(4n, 'c')]
  const { method, streams } = askingOperator(requests, 4)
  const { port } = await listen(t, [method])
  startAnswers(t, port, {
    list: maxBytes => `{"max":${maxBytes}}`,
    async preview(key) {
      if (key === 'c') throw new Error('4 previews are being made')
      return key === 'a' ? '{"key":"a"}' : undefined
    },
  })
  const complete = () => streams.filter(received => received.length === 5)
  await waitFor('two streams', () => complete().length >= 2)
  for (const [hello, ...answers] of complete()) {
    assert.partialDeepStrictEqual(hello, { case: 'hello', value: identity })
    const expected = ['1 {"max":77} ', '2 {"key":"a"} ', '3  ', '4  4 previews are being made']
    assert.deepEqual(answers.map(inShort).sort(), expected)
  }
})

test('a broker logs no warning about an operator without the method, and calls it again', async t => {
  const old = await listen(t, [])
  const { warnings } = startAnswers(t, old.port)
  const { method, streams } = askingOperator([list(1n)], 1)
  await old.stop()
  await listen(t, [method], old.port)
  await waitFor('an answer', () => streams.some(received => inShort(received[1]) === '1 {"streams":[]} '))
  assert.deepEqual(warnings, [])
})

test('an operator that asks more than is answered gets at most eight answers at a time', async t => {
  const requests = Array.from({ length: 100 }, (_, index) => preview(BigInt(index), 'a'))
  let running = 0
  let most = 0
  let made = 0
  const { promise: gate, resolve: open } = Promise.withResolvers<void>()
  const { method, streams } = askingOperator(requests, 8)
  const { port } = await listen(t, [method])
  startAnswers(t, port, {
    async preview() {
      made += 1
      running += 1
      most = Math.max(most, running)
      await gate
      running -= 1
      return '{}'
    },
  })
  await waitFor('eight previews', () => running === 8)
  open()
  await waitFor('eight answers', () => streams[0]?.length === 9)
  assert.equal(most, 8)
  assert.ok(made < 100, `${made} previews were made`)
})
