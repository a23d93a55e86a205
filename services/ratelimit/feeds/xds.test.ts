import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { create, fromBinary, toBinary } from '@bufbuild/protobuf'
import { createGrpcServer } from '@tollway/grpc/create-server.ts'
import type { Call, Method } from '@tollway/grpc/server.ts'
import { GrpcError } from '@tollway/grpc/status.ts'
import {
  type DiscoveryRequest,
  DiscoveryRequestSchema,
  DiscoveryResponseSchema,
} from '@tollway/proto/envoy/service/discovery/v3/discovery'
import { RateLimitConfigSchema, RateLimitUnit } from '@tollway/proto/ratelimit/config/ratelimit/v3/rls_conf'
import { freePorts } from '../../../test/support/free-ports.ts'
import { waitFor } from '../../../test/support/wait-for.ts'
import { openConfiguration } from './configuration-under-test.ts'
import { createXdsFeed, rateLimitTypeUrl, type XdsFeedOptions } from './xds.ts'

interface Response {
  readonly versionInfo: string
  readonly typeUrl: string
  readonly nonce: string
  readonly resources: { typeUrl: string; value: Uint8Array }[]
}

/** One stream, as the server sees it. */
interface ServerStream {
  /** The next request. */
  heard(): Promise<DiscoveryRequest>
  send(response: Response): void
  /** Ends it with OK, or with this error. */
  end(error?: GrpcError): void
  readonly openedMs: number
}

/** A management server that does what the test says. */
async function startServer(t: TestContext, port = 0) {
  const streams: ServerStream[] = []
  const method: Method<DiscoveryRequest, Response> = {
    path: '/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources',
    kind: 'bidi',
    decode: bytes => fromBinary(DiscoveryRequestSchema, bytes),
    encode: message => toBinary(DiscoveryResponseSchema, create(DiscoveryResponseSchema, message)),
    async *handle(requests: AsyncIterable<DiscoveryRequest>, call: Call) {
      const reader = requests[Symbol.asyncIterator]()
      const said: (Response | GrpcError | 'end')[] = []
      let wake = () => {}
      const say = (what: Response | GrpcError | 'end') => {
        said.push(what)
        wake()
      }
      call.signal.addEventListener('abort', () => say('end'))
      streams.push({
        openedMs: performance.now(),
        send: say,
        end: (error = undefined) => say(error ?? 'end'),
        async heard() {
          const { value } = await reader.next()
          assert.ok(value, 'the client ended the stream')
          return value
        },
      })
      for (;;) {
        const next = said.shift()
        if (next === 'end') return
        if (next instanceof GrpcError) throw next
        if (next !== undefined) yield next
        else await new Promise<void>(resolve => (wake = resolve))
      }
    },
  }
  const server = createGrpcServer({ methods: [method], onDefect: (_, error) => assert.fail(`${error}`) })
  const bound = await server.listen({ host: '127.0.0.1', port })
  assert.ok('port' in bound)
  const stop = () => server.drain(0)
  t.after(stop)
  /** The n-th stream that was opened, counted from 0. */
  const stream = (index: number) => waitFor(`stream ${index}`, () => streams[index])
  return { address: `127.0.0.1:${bound.port}`, streams, stream, stop }
}

function start(t: TestContext, server: string, options: Partial<XdsFeedOptions> = {}) {
  const under = openConfiguration('camel')
  const { configuration, log } = under
  const feed = createXdsFeed({
    server,
    nodeId: 'pod-1',
    nodeMetadata: new Map([['uid', 'u-1']]),
    maxMessageBytes: 1024 * 1024,
    connectRetryMs: 20,
    backoff: { initialMs: 10, maxMs: 40, factor: 2, jitter: 0 },
    random: () => 0.5,
    configuration,
    log,
    ...options,
  })
  feed.start()
  t.after(() => feed.stop())
  return { ...under, feed }
}

const nothing = new Uint8Array()

/** `a:1 b:2`: domains, each with one limit; a limit that is no number is a unit that is none. */
function response(version: string, text: string, more: Partial<Response> = {}): Response {
  const words = text.split(' ').filter(word => word !== '')
  const resources = words.map(word => {
    const [domain = '', limit] = word.split(':')
    const count = Number(limit)
    const rateLimit = Number.isNaN(count)
      ? { unit: RateLimitUnit.UNKNOWN }
      : { unit: RateLimitUnit.MINUTE, requestsPerUnit: count }
    const config = create(RateLimitConfigSchema, {
      name: `shop/${domain}`,
      domain,
      descriptors: [{ key: 'k', rateLimit }],
    })
    return { typeUrl: rateLimitTypeUrl, value: toBinary(RateLimitConfigSchema, config) }
  })
  return { versionInfo: version, typeUrl: rateLimitTypeUrl, nonce: `nonce of ${version}`, resources, ...more }
}

/** What an answer says, in short: `ack v1 (nonce of v1)`. */
function inShort({ versionInfo, responseNonce, errorDetail }: DiscoveryRequest): string {
  return `${errorDetail === undefined ? 'ack' : 'nack'} ${versionInfo} (${responseNonce})`
}

test('the first request tells who asks; every response is answered by version and nonce', async t => {
  const server = await startServer(t)
  const { inForce } = start(t, server.address)
  const stream = await server.stream(0)
  const first = await stream.heard()
  assert.equal(first.typeUrl, rateLimitTypeUrl)
  assert.deepEqual(first.resourceNames, [])
  assert.equal(first.node?.id, 'pod-1')
  assert.deepEqual(first.node?.metadata, { uid: 'u-1' })
  assert.equal(inShort(first), 'ack  ()')
  assert.equal(inForce(), undefined)
  for (const [version, text] of [
    ['v1', 'a:1'],
    ['v2', 'a:2 b:1'],
    ['v3', ''],
  ] as const) {
    stream.send(response(version, text))
    assert.equal(inShort(await stream.heard()), `ack ${version} (nonce of ${version})`)
    assert.equal(inForce(), text)
  }
})

test('a refusal has a line for each problem, and keeps the version and the limits in force', async t => {
  const server = await startServer(t)
  const { inForce, refusals, errors } = start(t, server.address)
  const stream = await server.stream(0)
  await stream.heard()
  stream.send(response('v1', 'a:1'))
  await stream.heard()
  stream.send(response('v2', 'a:2 b:wrong c:wrong'))
  const refusal = await stream.heard()
  assert.equal(inShort(refusal), 'nack v1 (nonce of v2)')
  assert.equal(refusal.errorDetail?.code, 3)
  const lines = refusal.errorDetail?.message.split('\n') ?? []
  assert.equal(lines.length, 2)
  assert.match(lines[0] ?? '', /^shop\/b: invalid rate limit unit '' \(at descriptors\[0\]\.rateLimit\.unit/)
  assert.match(lines[1] ?? '', /^shop\/c: invalid rate limit unit ''/)
  assert.deepEqual(
    errors,
    lines.map(line => `Error loading new configuration: ${line}`),
  )
  assert.equal(inForce(), 'a:1')
  stream.send(response('v3', 'a:3'))
  assert.equal(inShort(await stream.heard()), 'ack v3 (nonce of v3)')
  assert.equal(inForce(), 'a:3')
  assert.equal(refusals(), 1)
})

const malformed: readonly [string, Response, RegExp[]][] = [
  [
    'a response of another type, which would be an empty configuration',
    response('v2', '', { typeUrl: 'type.googleapis.com/other.Type' }),
    [/^response: its type is 'type\.googleapis\.com\/other\.Type', not /],
  ],
  [
    'resources of another type, and bytes that are none',
    response('v2', '', {
      resources: [
        { typeUrl: 'type.googleapis.com/other.Type', value: nothing },
        { typeUrl: rateLimitTypeUrl, value: Uint8Array.of(0x0a, 0xff) },
      ],
    }),
    [/^resources\[0\]: its type is 'type\.googleapis\.com\/other\.Type'/, /^resources\[1\]: /],
  ],
  ['a domain twice', response('v2', 'b:1 b:2'), [/^shop\/b: duplicate domain 'b' in config file/]],
]

test('what is no configuration at all is refused as a whole', async t => {
  for (const [what, wrong, expected] of malformed) {
    await t.test(what, async t => {
      const server = await startServer(t)
      const { inForce, refusals } = start(t, server.address)
      const stream = await server.stream(0)
      await stream.heard()
      stream.send(response('v1', 'a:1'))
      await stream.heard()
      stream.send(wrong)
      const refusal = await stream.heard()
      assert.equal(inShort(refusal), 'nack v1 (nonce of v2)')
      const lines = refusal.errorDetail?.message.split('\n') ?? []
      assert.equal(lines.length, expected.length, refusal.errorDetail?.message)
      for (const [index, line] of lines.entries()) assert.match(line, expected[index] ?? /never/)
      assert.equal(inForce(), 'a:1')
      assert.equal(refusals(), 1)
    })
  }
})

test('what is in force is acknowledged unloaded; its version with other content is loaded', async t => {
  const server = await startServer(t)
  const { inForce, loads } = start(t, server.address)
  const first = await server.stream(0)
  await first.heard()
  first.send(response('v1', 'a:1'))
  await first.heard()
  first.end()

  const second = await server.stream(1)
  assert.equal(inShort(await second.heard()), 'ack v1 ()')
  second.send(response('v1', 'a:1', { nonce: 'new' }))
  assert.equal(inShort(await second.heard()), 'ack v1 (new)')
  assert.equal(loads(), 1)
  second.send(response('v1', 'a:2', { nonce: 'newer' }))
  assert.equal(inShort(await second.heard()), 'ack v1 (newer)')
  assert.equal(inForce(), 'a:2')
})

test('a server that sends what was refused again and again gets slow answers, and one complaint', async t => {
  const server = await startServer(t)
  const connectRetryMs = 30
  const { refusals, errors } = start(t, server.address, { connectRetryMs })
  const stream = await server.stream(0)
  await stream.heard()
  stream.send(response('v1', 'a:wrong'))
  const refusal = await stream.heard()
  const beganMs = performance.now()
  for (const nonce of ['2', '3']) {
    stream.send(response('v1', 'a:wrong', { nonce }))
    const again = await stream.heard()
    assert.equal(again.responseNonce, nonce)
    assert.equal(again.errorDetail?.message, refusal.errorDetail?.message)
  }
  assert.ok(performance.now() - beganMs >= 2 * connectRetryMs - 2)
  assert.equal(refusals(), 1)
  assert.equal(errors.length, 1)
})

test('a stream that ended is opened again, later and later, until a response was good', async t => {
  const server = await startServer(t)
  start(t, server.address)
  const opened = async (index: number) => (await server.stream(index)).openedMs
  const first = await server.stream(0)
  await first.heard()
  first.send(response('v1', 'a:1'))
  await first.heard()
  first.end()
  for (const index of [1, 2, 3]) (await server.stream(index)).end(new GrpcError('UNAVAILABLE', 'go away'))
  const waits = [2, 3, 4].map(async index => (await opened(index)) - (await opened(index - 1)))
  for (const [index, waitMs] of (await Promise.all(waits)).entries()) {
    const leastMs = [20, 40, 40][index] ?? 0
    assert.ok(waitMs >= leastMs - 2, `wait ${index} was ${waitMs} ms, at least ${leastMs} were due`)
  }
})

test('a server that is away is told of once, in few words, and is found when it comes', async t => {
  const [port = 0] = await freePorts(1)
  const { inForce, warnings, feed } = start(t, `127.0.0.1:${port}`)
  await waitFor('the first complaint', () => warnings.length > 0)
  assert.deepEqual(warnings, [
    `no connection to the management server 127.0.0.1:${port} connect ECONNREFUSED 127.0.0.1:${port} 20`,
  ])
  const server = await startServer(t, port)
  const stream = await server.stream(0)
  await stream.heard()
  stream.send(response('v1', 'a:1'))
  await stream.heard()
  assert.equal(inForce(), 'a:1')
  assert.equal(warnings.length, 1)
  await server.stop()
  await waitFor('the second complaint', () => warnings.length > 1)
  assert.equal(inForce(), 'a:1')
  await feed.stop()
})

test('stop ends at once: in a stream, in a wait, and before the start', async t => {
  const server = await startServer(t)
  const running = start(t, server.address)
  await (await server.stream(0)).heard()
  const [port = 0] = await freePorts(1)
  const waiting = start(t, `127.0.0.1:${port}`, { connectRetryMs: 60_000 })
  await waitFor('the wait', () => waiting.warnings.length > 0)
  const beganMs = performance.now()
  await Promise.all([running.feed.stop(), waiting.feed.stop()])
  assert.ok(performance.now() - beganMs < 1_000)
  await waiting.feed.stop()
})
