import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import type { ReceivedSpan } from '../../services/chassis/tracing/testing/span-collector.ts'
import { startCollector } from '../../services/chassis/tracing/testing/span-collector.ts'
import { startGrpcCollector } from '../support/grpc-trace-collector.ts'
import { startMemcached } from '../support/memcached-server.ts'
import { rateLimitFiles, userLimit } from '../support/rate-limit-files.ts'
import { callRateLimit, type RateLimitProcess, startRateLimit } from '../support/rate-limit-process.ts'
import { startRedis } from '../support/redis-server.ts'
import { requireProgram } from '../support/require-server.ts'
import { waitFor } from '../support/wait-for.ts'

const traceId = '0af7651916cd43dd8448eb211c80319c'
const parentId = 'b7ad6b7169203331'
const b3Id = '463ac35c9f6413ad48485a3953bb6124'

type Settings = Readonly<Record<string, string>>

/** Starts the service with settings of tracing, and returns what its collector receives. */
async function start(t: TestContext, collector: { readonly url: string }, settings: Settings) {
  const service = await startRateLimit(t, {
    ...rateLimitFiles(userLimit('1000/day')).env,
    BACKEND_DEADLINE: '5s',
    DRAIN_DELAY: '0s',
    TRACING_ENABLED: 'true',
    OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
    OTEL_BSP_SCHEDULE_DELAY: '20',
    ...settings,
  })
  await service.serves()
  return service
}

const ask = { domain: 'shop', descriptors: [{ entries: [{ key: 'user', value: 'alice' }] }] }

/** A call over HTTP with these headers. */
async function callJson({ httpPort }: RateLimitProcess, headers: Settings): Promise<number> {
  const url = `http://127.0.0.1:${httpPort}/json`
  const response = await fetch(url, { method: 'POST', headers, body: JSON.stringify(ask) })
  await response.arrayBuffer()
  return response.status
}

/** `name < name of its parent`; the id of a parent that is not among the received spans. */
function tree(spans: readonly ReceivedSpan[]): readonly string[] {
  const findName = (id: string) => spans.find(({ spanId }) => spanId === id)?.name ?? (id || '(root)')
  return spans.map(({ name, parentId: id }) => `${name} < ${findName(id)}`).sort()
}

const decision = 'ShouldRateLimit Execution'
const jsonAnswer = 'NewJsonHandler Remaining Execution'

test('spans of Redis calls over HTTP have names, attributes, a resource, and parents by W3C and by B3', async t => {
  if (!requireProgram(t, 'redis-server')) return
  const redis = await startRedis()
  t.after(() => redis.stop())
  const collector = await startCollector(t)
  const service = await start(t, collector, {
    KVSTORE_SOCKET_TYPE: 'tcp',
    KVSTORE_URL: `127.0.0.1:${redis.port}`,
    TRACING_SERVICE_NAMESPACE: 'shop',
    TRACING_SERVICE_INSTANCE_ID: 'pod-1',
    TRACING_SAMPLING_RATE: '0',
    OTEL_RESOURCE_ATTRIBUTES: 'k8s.cluster.name=test',
  })
  const { shouldRateLimit } = callRateLimit(t, service.grpcPort)
  const traceparent = `00-${traceId}-${parentId}-01`
  await shouldRateLimit(ask, { metadata: new Map([['traceparent', [traceparent]]]) })
  assert.equal(await callJson(service, { b3: `${b3Id}-${parentId}-1` }), 200)
  await callJson(service, {})
  await callJson(service, { traceparent: traceparent.replace(/01$/, '00') })
  assert.equal(await service.program.end('SIGTERM'), 0)

  const { spans } = collector
  const redisSpan = 'Redis Pipeline Execution'
  assert.deepEqual(tree(spans), [
    `${jsonAnswer} < ${decision}`,
    `${redisSpan} < ${decision}`,
    `${redisSpan} < ${decision}`,
    `${decision} < ${parentId}`,
    `${decision} < ${parentId}`,
  ])
  assert.deepEqual(
    new Set(spans.map(span => span.traceId)),
    new Set([traceId, b3Id]),
    'the two whose caller had not decided for it are left out',
  )
  const first = spans.find(({ name }) => name === decision)
  assert.equal(first?.attributes['domain'], 'shop')
  assert.match(String(first.attributes['request string']), /user.*alice/)
  const { resource } = first
  const attributes = ['service.name', 'service.namespace', 'service.instance.id', 'k8s.cluster.name']
  assert.deepEqual(
    attributes.map(name => resource[name]),
    ['RateLimit', 'shop', 'pod-1', 'test'],
  )
  assert.deepEqual(spans.find(({ name }) => name === redisSpan)?.attributes, {
    'pipeline length': 1,
    'perSecondPipeline length': 0,
  })
})

test('every memcached call of a caller without a trace is traced over gRPC', async t => {
  if (!requireProgram(t, 'memcached')) return
  const memcached = await startMemcached()
  t.after(() => memcached.stop())
  const collector = await startGrpcCollector(t)
  const service = await start(t, collector, {
    BACKEND_TYPE: 'memcache',
    MEMSTORE_HOST_PORT: memcached.address,
    TRACING_EXPORTER_PROTOCOL: 'grpc',
    TRACING_SERVICE_NAME: 'limits of the shop',
  })
  const { shouldRateLimit } = callRateLimit(t, service.grpcPort)
  for (let call = 0; call < 5; call += 1) await shouldRateLimit(ask)
  await waitFor('all spans', () => collector.spans.length === 10)
  const fetched = 'Memcached Fetch Execution'
  assert.deepEqual(
    new Set(tree(collector.spans)),
    new Set([`${decision} < (root)`, `${fetched} < ${decision}`]),
  )
  assert.equal(new Set(collector.spans.map(span => span.traceId)).size, 5)
  const [span] = collector.spans.filter(({ name }) => name === fetched)
  assert.deepEqual(span?.attributes, { 'keysToGet length': 1 })
  assert.equal(span?.resource['service.name'], 'limits of the shop')
  assert.match(String(span?.resource['service.instance.id']), /^[\da-f]{8}-[\da-f]{4}-4/, 'a random UUID')
})

test('half of the calls are traced at a rate of 0.5', async t => {
  const collector = await startCollector(t)
  const service = await start(t, collector, { BACKEND_TYPE: 'memory', TRACING_SAMPLING_RATE: '0.5' })
  const { shouldRateLimit } = callRateLimit(t, service.grpcPort)
  const calls = 400
  await Promise.all(Array.from({ length: calls }, () => shouldRateLimit(ask)))
  assert.equal(await service.program.end('SIGTERM'), 0)
  const traced = collector.spans.length
  // Chance would be outside of this in one of 10^9 runs.
  assert.ok(Math.abs(traced - calls / 2) < 65, `${traced} of ${calls} calls were traced`)
})

test('an invalid endpoint ends the process, with the name of its variable', async t => {
  const settings = { BACKEND_TYPE: 'memory', TRACING_ENABLED: 'true', RUNTIME_ROOT: '/nonexistent' }
  const { program } = await startRateLimit(t, { ...settings, OTEL_EXPORTER_OTLP_ENDPOINT: 'not a url' })
  assert.equal(await program.exited(), 1)
  assert.match(
    program.output(),
    /msg="start service failed" reason="OTEL_EXPORTER_OTLP_ENDPOINT: the value is not/,
  )
})
