import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { create, fromBinary, type MessageInitShape, toBinary } from '@bufbuild/protobuf'
import { systemClock } from '@tollway/chassis/clock.ts'
import { silentLog } from '@tollway/chassis/log/log.ts'
import { readSettings } from '@tollway/chassis/settings.ts'
import { createGrpcServer } from '@tollway/grpc/server/create-server.ts'
import type { Method } from '@tollway/grpc/server.ts'
import { StreamRouteSchema } from '@tollway/proto/tollway/broker/v1/stream_route'
import {
  type StreamReport,
  StreamReportEndSchema,
  StreamReportSchema,
} from '@tollway/proto/tollway/operator/v1/stream_reports'
import { feedSettings } from '@tollway/xds-client/feed-settings.ts'
import { Feed } from '../../../operator/xds/feed.ts'
import { createResource, createSnapshot } from '../../../operator/xds/snapshot.ts'
import { waitFor } from '../../../test/support/wait-for.ts'
import { RouteTable, routeTypeUrl } from '../routes/route-table.ts'
import { openRouteFeed } from './route-feed.ts'

type Message = MessageInitShape<typeof StreamRouteSchema> & { readonly name: string }

const createRouteSnapshot = (messages: readonly Message[]) =>
  createSnapshot(
    routeTypeUrl,
    messages.map(message =>
      createResource(message.name, toBinary(StreamRouteSchema, create(StreamRouteSchema, message))),
    ),
  )

/** A fake operator: the feed of routes, and the reports of brokers. */
async function startOperator(t: TestContext) {
  const reports: StreamReport[] = []
  const reporting: Method<StreamReport, object> = {
    kind: 'client-stream',
    path: '/tollway.operator.v1.StreamReports/Report',
    decode: bytes => fromBinary(StreamReportSchema, bytes),
    encode: () => toBinary(StreamReportEndSchema, create(StreamReportEndSchema)),
    async handle(requests) {
      for await (const report of requests) reports.push(report)
      return {}
    },
  }
  let streams = 0
  const ids = () => `${++streams}`
  const feed = new Feed({ typeUrls: [routeTypeUrl], ids, clock: systemClock, log: silentLog })
  const server = createGrpcServer({
    methods: [...feed.methods, reporting],
    onDefect: (_, error) => assert.fail(`${error}`),
  })
  t.after(() => {
    feed.close()
    return server.drain(0)
  })
  const bound = await server.listen({ host: '127.0.0.1', port: 0 })
  assert.ok('port' in bound)
  return { feed, reports, port: bound.port }
}

function startBroker(t: TestContext, port: number, metadata = 'pod:broker-0,uid:u-1,namespace:local') {
  const env = {
    CONFIG_GRPC_XDS_SERVER_URL: `127.0.0.1:${port}`,
    CONFIG_GRPC_XDS_NODE_ID: 'broker-0',
    CONFIG_GRPC_XDS_NODE_METADATA: metadata,
  }
  const read = readSettings(feedSettings, env, () => assert.fail())
  assert.ok('value' in read)
  const table = new RouteTable({ clock: systemClock, log: silentLog })
  const loads = () => [{ route: 'shop/a', activeStreams: 1, consumers: 2 }]
  const pages = { list: () => '{"streams":[]}', preview: async () => undefined }
  const feed = openRouteFeed(read.value, { table, loads, pages, log: silentLog })
  feed.start()
  t.after(() => feed.stop())
  return {
    table,
    names: () =>
      table
        .routes()
        .map(({ name }) => name)
        .join(' '),
  }
}

test('published routes take effect, and are acknowledged', async t => {
  const { feed, port } = await startOperator(t)
  const { table, names } = startBroker(t, port)
  const first = createRouteSnapshot([
    { name: 'shop/a', match: { streamIdPrefix: 'game-' } },
    { name: 'shop/b' },
  ])
  feed.publish(first)
  await waitFor('the routes', () => names() === 'shop/a shop/b')
  const ids = { sourceServiceId: '', streamId: 'game-1', targetObjectId: '' }
  assert.equal(table.choose(ids).name, 'shop/a')
  const resource = first.resources.get('shop/a')
  assert.ok(resource)
  await waitFor('the acknowledgement', () =>
    feed.enforcement(routeTypeUrl, ['u-1'])(resource).acknowledged.has('u-1'),
  )
  assert.equal(feed.clients()[0]?.uid, 'u-1')
  feed.publish(createRouteSnapshot([]))
  await waitFor('the end of all routes', () => names() === '')
})

test('an invalid route is rejected by name, and does not affect others', async t => {
  const { feed, port } = await startOperator(t)
  const { names } = startBroker(t, port)
  const good = { name: 'shop/a' }
  const wrong = { name: 'shop/b', slowConsumers: 'kill' }
  const snapshot = createRouteSnapshot([good, wrong])
  feed.publish(snapshot)
  await waitFor('the good route', () => names() === 'shop/a')
  const resource = snapshot.resources.get('shop/b')
  assert.ok(resource)
  const rejection = await waitFor(
    'the rejection',
    () => feed.enforcement(routeTypeUrl, ['u-1'])(resource).rejections[0],
  )
  assert.match(JSON.stringify(rejection), /slowConsumers: .*kill.* is not allowed: one of wait, drop-oldest/)
})

test('the load is reported over the same connection', async t => {
  const { reports, port } = await startOperator(t)
  startBroker(t, port)
  const [report] = await waitFor('the report', () => reports.length > 0 && reports)
  assert.equal(report?.uid, 'u-1')
  assert.equal(report.routes[0]?.route, 'shop/a')
  assert.equal(report.routes[0]?.consumers, 2)
})

test('a broker without a uid sends no report', async t => {
  const { feed, reports, port } = await startOperator(t)
  const { table } = startBroker(t, port, '')
  const loaded = new Promise<void>(resolve => table.onChange(resolve))
  feed.publish(createRouteSnapshot([]))
  await loaded
  assert.deepEqual(reports, [])
})
