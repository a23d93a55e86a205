import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import { create, fromBinary, toBinary } from '@bufbuild/protobuf'
import { createGrpcServer } from '@tollway/grpc/create-server.ts'
import type { Call, Metadata, Method, ServerTls } from '@tollway/grpc/server.ts'
import { GrpcError } from '@tollway/grpc/status.ts'
import {
  type DiscoveryRequest,
  DiscoveryRequestSchema,
  DiscoveryResponseSchema,
} from '@tollway/proto/envoy/service/discovery/v3/discovery'
import { RateLimitConfigSchema, RateLimitUnit } from '@tollway/proto/ratelimit/config/ratelimit/v3/rls_conf'
import { waitFor } from '../../../../test/support/wait-for.ts'
import { openConfiguration } from '../configuration-under-test.ts'
import { rateLimitTypeUrl } from '../read-resources.ts'
import { createXdsFeed, type XdsFeedOptions } from '../xds.ts'

export interface Response {
  readonly versionInfo: string
  readonly typeUrl: string
  readonly nonce: string
  readonly resources: { typeUrl: string; value: Uint8Array }[]
}

/** One stream, as the server sees it. */
export interface ServerStream {
  /** The next request. */
  heard(): Promise<DiscoveryRequest>
  send(response: Response): void
  /** Ends it with OK, or with this error. */
  end(error?: GrpcError): void
  readonly openedMs: number
  readonly metadata: Metadata
}

/** A management server that does what the test says. */
export async function startServer(t: TestContext, options: { port?: number; tls?: ServerTls } = {}) {
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
        metadata: call.metadata,
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
  const bound = await server.listen({ host: '127.0.0.1', port: 0, ...options })
  assert.ok('port' in bound)
  const stop = () => server.drain(0)
  t.after(stop)
  /** The n-th stream that was opened, counted from 0. */
  const stream = (index: number) => waitFor(`stream ${index}`, () => streams[index])
  return { address: `127.0.0.1:${bound.port}`, streams, stream, stop }
}

export function startFeed(t: TestContext, server: string, options: Partial<XdsFeedOptions> = {}) {
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

export const nothing = new Uint8Array()

/** `a:1 b:2`: domains, each with one limit; a limit that is no number is a unit that is none. */
export function response(version: string, text: string, more: Partial<Response> = {}): Response {
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
export function inShort({ versionInfo, responseNonce, errorDetail }: DiscoveryRequest): string {
  return `${errorDetail === undefined ? 'ack' : 'nack'} ${versionInfo} (${responseNonce})`
}
