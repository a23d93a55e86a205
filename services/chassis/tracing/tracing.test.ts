import assert from 'node:assert/strict'
import { registerHooks } from 'node:module'
import { type TestContext, test } from 'node:test'
import { startGrpcCollector } from '../../../test/support/grpc-trace-collector.ts'
import { type Log, type LogFields, silentLog } from '../log/log.ts'
import { openTracingTo, type ReceivedSpan, setEnvironment, startCollector } from './testing/span-collector.ts'
import { maxTextChars, type ReadHeader, type Tracing } from './tracing.ts'

const noHeaders: ReadHeader = () => undefined
const enoughMs = 5_000

const traceId = '0af7651916cd43dd8448eb211c80319c'
const parentId = 'b7ad6b7169203331'
const otherId = '00f067aa0ba902b7'

test('spans reach a collector of HTTP with their names, attributes, parents and resource', async t => {
  const collector = await startCollector(t)
  setEnvironment(t, {
    OTEL_EXPORTER_OTLP_HEADERS: 'x-tenant=blue',
    OTEL_RESOURCE_ATTRIBUTES: 'deployment.environment.name=test,service.name=ignored',
  })
  const tracing = await openTracingTo(t, collector.url, { tracingServiceNamespace: 'shop' })
  makeSpans(tracing)
  await tracing.stop(enoughMs)

  const [request] = collector.requests
  assert.equal(request?.path, '/v1/traces')
  assert.equal(request.headers['content-type'], 'application/x-protobuf')
  assert.equal(request.headers['x-tenant'], 'blue')
  assertSpans(collector.spans)
  const { resource } = collector.spans[0] ?? {}
  assert.equal(resource?.['service.name'], 'Under Test')
  assert.equal(resource['service.namespace'], 'shop')
  assert.equal(resource['service.instance.id'], 'instance-1')
  assert.equal(resource['deployment.environment.name'], 'test')
  assert.ok(!Object.keys(resource).some(name => /^(host|process|os)\./.test(name)), 'no resource is detected')
})

test('spans reach a collector of gRPC', async t => {
  const collector = await startGrpcCollector(t)
  const tracing = await openTracingTo(t, collector.url, { tracingExporterProtocol: 'grpc' })
  makeSpans(tracing)
  await tracing.stop(enoughMs)
  assertSpans(collector.spans)
  assert.ok(!('service.namespace' in (collector.spans[0]?.resource ?? {})), 'an empty namespace is none')
})

/** Creates the span of a call with a child span that fails. */
function makeSpans(tracing: Tracing): void {
  const headers = headersOf(`traceparent: 00-${traceId}-${parentId}-01`)
  const call = tracing.startSpan('call', headers, () => ({ text: 'ä', count: 3 }))
  const child = call?.child('child', { length: 2 ** 40 })
  child?.end(new Error('the backend is away'))
  child?.end(new Error('too late'))
  call?.end()
}

function assertSpans(spans: readonly ReceivedSpan[]): void {
  const [child, call, ...more] = spans
  assert.ok(call && child)
  assert.equal(more.length, 0)
  const told = ({ name, traceId, parentId, attributes, statusCode, statusMessage }: ReceivedSpan) => {
    return { name, traceId, parentId, attributes, statusCode, statusMessage }
  }
  assert.deepEqual(told(call), {
    name: 'call',
    traceId,
    parentId,
    attributes: { text: 'ä', count: 3 },
    statusCode: 0,
    statusMessage: '',
  })
  assert.deepEqual(told(child), {
    name: 'child',
    traceId,
    parentId: call.spanId,
    attributes: { length: 2 ** 40 },
    statusCode: 2,
    statusMessage: 'the backend is away',
  })
  assert.ok(child.durationNs >= 0n && child.durationNs <= call.durationNs)
}

/** Each line: the sampling rate, the call's headers, and the parent of the exported span. */
const samplingCases = `
0    (none)                                                             → not sampled
1    (none)                                                             → root
0    traceparent: 00-TRACE-PARENT-01                                    → PARENT
1    traceparent: 00-TRACE-PARENT-00                                    → not sampled
0    traceparent: 00-TRACE-PARENT-01 | tracestate: vendor=x             → PARENT
1    traceparent: 00-TRACE-PARENT-01,00-TRACE-OTHER-01                  → root
1    traceparent: nonsense                                              → root
1    traceparent: 00-00000000000000000000000000000000-PARENT-01         → root
0    b3: TRACE-PARENT-1                                                 → PARENT
0    b3: TRACE-PARENT-d                                                 → PARENT
0    b3: TRACE-PARENT-1-OTHER                                           → PARENT
1    b3: TRACE-PARENT-0                                                 → not sampled
0    x-b3-traceid: TRACE | x-b3-spanid: PARENT | x-b3-sampled: 1        → PARENT
0    x-b3-traceid: TRACE | x-b3-spanid: PARENT | x-b3-flags: 1          → PARENT
1    x-b3-traceid: TRACE | x-b3-spanid: PARENT | x-b3-sampled: 0        → not sampled
1    x-b3-traceid: TRACE | x-b3-sampled: 1                              → root
0    traceparent: 00-TRACE-PARENT-01 | b3: TRACE-OTHER-1                → OTHER
1    baggage: user=alice                                                → root
`

test('a parent decides whether a call is sampled, and the rate without one', async t => {
  const collector = await startCollector(t)
  const tracing = {
    '0': await openTracingTo(t, collector.url, { tracingSamplingRate: 0 }),
    '1': await openTracingTo(t, collector.url, { tracingSamplingRate: 1 }),
  }
  const cases = samplingCases.trim().split('\n')
  for (const line of cases) {
    const [, rate = '', headers = ''] = /^(\S+) +(.*?) *→/.exec(line) ?? []
    const span = tracing[rate === '0' ? 0 : 1].startSpan(line, headersOf(withIds(headers)))
    span?.end()
  }
  await Promise.all([tracing[0].stop(enoughMs), tracing[1].stop(enoughMs)])
  for (const line of cases) {
    const span = collector.spans.find(({ name }) => name === line)
    const [, expected = ''] = line.split('→ ')
    if (expected === 'not sampled') assert.equal(span, undefined, line)
    else assert.equal(span?.parentId, expected === 'root' ? '' : withIds(expected), line)
    if (expected === 'PARENT') assert.equal(span?.traceId, traceId, line)
  }
})

function withIds(text: string): string {
  return text.replaceAll('TRACE', traceId).replaceAll('PARENT', parentId).replaceAll('OTHER', otherId)
}

/** Returns a reader of the headers in a text such as `name: value | name: value`. */
function headersOf(text: string): ReadHeader {
  const headers = new Map(text.split(' | ').map(header => header.split(': ') as [string, string]))
  return name => headers.get(name)
}

test('the attributes of an unsampled call are not computed', async t => {
  const tracing = await openTracingTo(t, 'http://127.0.0.1:1', { tracingSamplingRate: 0 })
  const span = tracing.startSpan('call', noHeaders, () => assert.fail('the attributes were computed'))
  assert.equal(span, undefined)
  await tracing.stop(enoughMs)
})

test('a span ends with its work, whether it succeeds or fails', async t => {
  const collector = await startCollector(t)
  const tracing = await openTracingTo(t, collector.url)
  const start = (name: string) => {
    const span = tracing.startSpan(name, noHeaders)
    assert.ok(span)
    return span
  }
  const rejection = new Error('no')
  assert.equal(
    start('value').run(() => 7),
    7,
  )
  assert.throws(
    () =>
      start('throw').run(() => {
        throw rejection
      }),
    rejection,
  )
  assert.equal(await start('promise').run(() => Promise.resolve(7)), 7)
  await assert.rejects(
    start('rejection').run(() => Promise.reject(rejection)),
    rejection,
  )
  start('never ended').run(() => new Promise(() => {}))
  await tracing.stop(enoughMs)
  assert.deepEqual(
    collector.spans.map(({ name, statusMessage }) => `${name}: ${statusMessage}`),
    ['value: ', 'throw: no', 'promise: ', 'rejection: no'],
  )
})

test('long texts are truncated, and invalid Unicode does not break the batch', async t => {
  const collector = await startCollector(t)
  const tracing = await openTracingTo(t, collector.url)
  const long = `${'x'.repeat(maxTextChars - 1)}😀`
  const span = tracing.startSpan('call', noHeaders, () => ({ long, lone: 'a\ud800b' }))
  span?.end(new Error(long))
  await tracing.stop(enoughMs)
  const cut = `${'x'.repeat(maxTextChars - 1)}\ufffd`
  assert.deepEqual(collector.spans[0]?.attributes, { long: cut, lone: 'a\ufffdb' })
  assert.equal(collector.spans[0]?.statusMessage, cut)
})

test('a hanging collector delays the stop by at most the timeout, and spans are queued', async t => {
  const collector = await startCollector(t, { hangs: true })
  setEnvironment(t, {
    OTEL_BSP_MAX_QUEUE_SIZE: '10',
    OTEL_BSP_MAX_EXPORT_BATCH_SIZE: '5',
    OTEL_EXPORTER_OTLP_TIMEOUT: '500',
  })
  const { log, warnings } = recordingLog()
  const tracing = await openTracingTo(t, collector.url, { log })
  for (let i = 0; i < 1000; i++) tracing.startSpan('call', noHeaders)?.end()
  await tracing.stop(100)
  assert.ok(collector.spans.length <= 15, `${collector.spans.length} of a batch and a queue`)
  assert.equal(warnings.length, 1)
  assert.match(warnings[0] ?? '', /export last spans failed/)
})

const nobodyThere = async () => ({ url: 'http://127.0.0.1:1' })

const losses = [
  { name: 'a collector of HTTP that is away', protocol: 'http', start: nobodyThere, reason: /ECONNREFUSED/ },
  { name: 'a collector of gRPC that is away', protocol: 'grpc', start: nobodyThere, reason: /UNAVAILABLE/ },
  {
    name: 'a collector that rejects',
    protocol: 'http',
    start: (t: TestContext) => startCollector(t, { status: 400 }),
    reason: /Bad Request/,
  },
] as const

for (const { name, protocol, start, reason } of losses) {
  test(`${name} is logged once a minute, with all lost spans`, async t => {
    setEnvironment(t, { OTEL_EXPORTER_OTLP_TIMEOUT: '300', OTEL_BSP_MAX_EXPORT_BATCH_SIZE: '1' })
    const { log, warnings, warned } = recordingLog()
    // The times of the losses: each loss reads the clock once.
    const times = [0, 1, 59_999, 59_999, 60_000, 119_999]
    const clock = { nowMs: () => 0, monotonicMs: () => times.shift() ?? assert.fail('one loss too many') }
    const { url } = await start(t)
    const tracing = await openTracingTo(t, url, { tracingExporterProtocol: protocol, log, clock })
    for (let i = 0; i < 6; i++) tracing.startSpan('call', noHeaders)?.end()
    await warned(2)
    await tracing.stop(enoughMs)
    assert.deepEqual(times, [])
    assert.equal(warnings.length, 2)
    for (const warning of warnings) assert.match(warning, reason)
    assert.match(warnings[0] ?? '', /"lostSpans":1,/)
    assert.match(warnings[1] ?? '', /"lostSpans":4,/)
  })
}

test('an invalid variable is logged without its credentials', async t => {
  const { log, warnings } = recordingLog()
  setEnvironment(t, { OTEL_EXPORTER_OTLP_TIMEOUT: 'http://user:secret@collector' })
  const tracing = await openTracingTo(t, 'http://collector:4318', { log })
  await tracing.stop(enoughMs)
  assert.match(
    warnings.join('\n'),
    /Unknown value 'http:\/\/\*\*\*@collector' for OTEL_EXPORTER_OTLP_TIMEOUT/,
  )
})

/** Collects warnings, and lets a test wait for them. */
function recordingLog() {
  const warnings: string[] = []
  let wake = () => {}
  const log: Log = {
    ...silentLog,
    warn(message: string, fields: LogFields = {}) {
      warnings.push(`${message} ${JSON.stringify(fields)}`)
      wake()
    },
  }
  const warned = async (count: number) => {
    while (warnings.length < count) await new Promise<void>(resolve => (wake = resolve))
  }
  return { log, warnings, warned }
}

test('the SDK is not loaded before tracing is started', async () => {
  const loaded: string[] = []
  const hooks = registerHooks({
    resolve(specifier, context, next) {
      loaded.push(specifier)
      return next(specifier, context)
    },
  })
  try {
    await import(`./tracing.ts?anew=${loaded.length}`)
  } finally {
    hooks.deregister()
  }
  assert.ok(loaded.length > 0)
  assert.deepEqual(
    loaded.filter(specifier => specifier.includes('opentelemetry')),
    [],
  )
})

/** Endpoints, and for each protocol whether spans can be sent there. */
const endpoints: readonly [string, { readonly http: boolean; readonly grpc: boolean }][] = [
  ['http://collector:4318', { http: true, grpc: true }],
  [' https://user:secret@collector ', { http: true, grpc: true }],
  ['collector:4317', { http: false, grpc: true }],
  ['not a url, user:secret@', { http: false, grpc: false }],
  ['ftp://collector', { http: false, grpc: false }],
]

test('an invalid endpoint is reported with its variable and without its value', async t => {
  for (const [endpoint, allowed] of endpoints) {
    for (const exporterProtocol of ['http', 'grpc'] as const) {
      const started = openTracingTo(t, endpoint, { tracingExporterProtocol: exporterProtocol }).then(
        async tracing => await tracing.stop(enoughMs),
        (error: Error) => error.message,
      )
      const told = await started
      if (allowed[exporterProtocol]) assert.equal(told, undefined, endpoint)
      else {
        assert.match(
          told ?? '',
          /^OTEL_EXPORTER_OTLP_ENDPOINT: the value is not allowed: a URL such as http:/,
        )
        assert.doesNotMatch(told ?? '', /secret/)
      }
    }
  }
})
