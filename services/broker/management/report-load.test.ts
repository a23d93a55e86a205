import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { create, fromBinary, toBinary } from '@bufbuild/protobuf'
import { systemClock } from '@tollway/chassis/clock.ts'
import { type Log, silentLog } from '@tollway/chassis/log/log.ts'
import { createGrpcServer } from '@tollway/grpc/server/create-server.ts'
import type { AnyMethod, Method } from '@tollway/grpc/server.ts'
import { GrpcError } from '@tollway/grpc/status.ts'
import {
  type StreamReport,
  StreamReportEndSchema,
  StreamReportSchema,
} from '@tollway/proto/tollway/operator/v1/stream_reports'
import { FeedConnection } from '@tollway/xds-client/feed-connection.ts'
import { waitFor } from '../../../test/support/wait-for.ts'
import { createLoadReporter, type LocalRouteLoad } from './report-load.ts'

/** Returns a report in short form, with the streams and consumers of each route: `pod-1 shop/a:2/3 :0/1`. */
function inShort({ uid, routes }: StreamReport): string {
  return [
    uid,
    ...routes.map(({ route, activeStreams, consumers }) => `${route}:${activeStreams}/${consumers}`),
  ].join(' ')
}

interface ReceivedStream {
  readonly reports: string[]
  /** Ends the stream with OK, or with this error. */
  end(error?: GrpcError): void
  hasEnded: boolean
}

/** A fake operator that records reports. */
function createReports() {
  const streams: ReceivedStream[] = []
  const method: Method<StreamReport, object> = {
    kind: 'client-stream',
    path: '/tollway.operator.v1.StreamReports/Report',
    decode: bytes => fromBinary(StreamReportSchema, bytes),
    encode: () => toBinary(StreamReportEndSchema, create(StreamReportEndSchema)),
    async handle(requests, call) {
      const end = Promise.withResolvers<object>()
      const stream: ReceivedStream = {
        reports: [],
        hasEnded: false,
        end: error => (error === undefined ? end.resolve({}) : end.reject(error)),
      }
      streams.push(stream)
      call.signal.addEventListener('abort', () => end.reject(call.signal.reason))
      const listen = async () => {
        for await (const report of requests) {
          stream.reports.push(inShort(report))
        }
      }
      listen().catch(end.reject)
      return await end.promise.finally(() => {
        stream.hasEnded = true
      })
    },
  }
  const stream = (index: number) => waitFor(`stream ${index}`, () => streams[index])
  return { method, streams, stream }
}

async function listen(t: TestContext, methods: readonly AnyMethod[], port = 0) {
  const server = createGrpcServer({ methods, onDefect: (_, error) => assert.fail(`${error}`) })
  const stop = () => server.drain(0)
  t.after(stop)
  const bound = await server.listen({ host: '127.0.0.1', port })
  assert.ok('port' in bound)
  return { port: bound.port, stop }
}

const intervalMs = 100

function startReporter(t: TestContext, port: number, loads: () => readonly LocalRouteLoad[]) {
  const warnings: string[] = []
  const failures: string[] = []
  const record = (list: string[]) => (_: string, fields?: object) =>
    void list.push(String((fields as { reason?: unknown } | undefined)?.reason))
  const log: Log = { ...silentLog, warn: record(warnings), debug: record(failures) }
  const connection = new FeedConnection({ server: `127.0.0.1:${port}`, maxReceiveBytes: 1024 })
  const reporter = createLoadReporter({
    ...{ connection, uid: 'pod-1', loads, log },
    clock: systemClock,
    random: () => 0.5,
    timing: { intervalMs, backoff: { initialMs: 20, maxMs: 80 }, unsupportedMs: 20 },
  })
  reporter.start()
  t.after(async () => {
    await reporter.stop()
    connection.close()
  })
  return { reporter, warnings, failures }
}

const load = (route: string, activeStreams: number, consumers: number): LocalRouteLoad => ({
  route,
  activeStreams,
  consumers,
})

test('the whole report comes first, and again when it has changed, at most once an interval', async t => {
  const { method, stream } = createReports()
  const { port } = await listen(t, [method])
  let loads = [load('shop/b', 1, 2), load('', 0, 1)]
  const lookedMs: number[] = []
  startReporter(t, port, () => {
    lookedMs.push(performance.now())
    return loads
  })
  const { reports } = await stream(0)
  await waitFor('the first report', () => reports.length === 1)
  loads = [load('', 0, 1), load('shop/b', 1, 2)]
  const before = lookedMs.length
  await waitFor('two looks more', () => lookedMs.length >= before + 2)
  assert.deepEqual(reports, ['pod-1 :0/1 shop/b:1/2'], 'another order is not a change')
  loads = [load('shop/a', 3, 0)]
  await waitFor('the second report', () => reports.length === 2)
  loads = []
  await waitFor('the third report', () => reports.length === 3)
  assert.deepEqual(reports.slice(1), ['pod-1 shop/a:3/0', 'pod-1'])
  // A look causes at most one report. Reports that wait on the way can arrive together.
  const shortestMs = Math.min(...lookedMs.slice(1).map((ms, index) => ms - (lookedMs[index] ?? 0)))
  assert.ok(shortestMs > intervalMs - 2, `${shortestMs} ms between two looks`)
})

test('each new stream begins with the whole report', async t => {
  const { method, stream } = createReports()
  const { port } = await listen(t, [method])
  const { warnings } = startReporter(t, port, () => [load('shop/a', 1, 1)])
  const ends = [undefined, new GrpcError('UNAVAILABLE', 'go'), new GrpcError('PERMISSION_DENIED', 'no pod')]
  for (const [index, error] of [...ends, ...ends].entries()) {
    const { reports, end } = await stream(index)
    await waitFor('the report', () => reports.length > 0)
    assert.deepEqual(reports, ['pod-1 shop/a:1/1'])
    end(error)
  }
  await stream(2 * ends.length)
  assert.deepEqual(warnings, ['no pod'], 'only the error that the feed does not report, and once')
})

test('the report is sent again after a reconnect; an operator without the method is ignored', async t => {
  const old = await listen(t, [])
  const { warnings, failures, reporter } = startReporter(t, old.port, () => [load('shop/a', 1, 1)])
  await waitFor('the answer of the old operator', () =>
    failures.some(reason => /does not serve/.test(reason)),
  )
  await old.stop()
  const { method, stream } = createReports()
  await listen(t, [method], old.port)
  const received = await stream(0)
  await waitFor('the report', () => received.reports.length === 1)
  await reporter.stop()
  await waitFor('the end of the stream', () => received.hasEnded)
  assert.deepEqual(warnings, [])
})
