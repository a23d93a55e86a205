import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import { create, fromBinary, toBinary } from '@bufbuild/protobuf'
import { createGrpcServer } from '@tollway/grpc/server/create-server.ts'
import type { AnyMethod, Call, Metadata, Method, ServerTls } from '@tollway/grpc/server.ts'
import { GrpcError } from '@tollway/grpc/status.ts'
import {
  type DiscoveryRequest,
  DiscoveryRequestSchema,
  DiscoveryResponseSchema,
} from '@tollway/proto/envoy/service/discovery/v3/discovery'
import { waitFor } from '../../../test/support/wait-for.ts'

export interface Response {
  readonly versionInfo: string
  readonly typeUrl: string
  readonly nonce: string
  readonly resources: { typeUrl: string; value: Uint8Array }[]
}

/** The server's side of one stream. */
export interface ServerStream {
  /** Resolves with the next request. */
  heard(): Promise<DiscoveryRequest>
  send(response: Response): void
  /** Ends the stream with OK, or with this error. */
  end(error?: GrpcError): void
  readonly openedMs: number
  readonly metadata: Metadata
}

export interface ManagementServerOptions {
  readonly port?: number
  readonly tls?: ServerTls
  /** Further methods of the server. */
  readonly methods?: readonly AnyMethod[]
}

/** Starts a management server that the test controls. */
export async function startServer(
  t: TestContext,
  { port = 0, tls, methods = [] }: ManagementServerOptions = {},
) {
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
  const server = createGrpcServer({
    methods: [method, ...methods],
    onDefect: (_, error) => assert.fail(`${error}`),
  })
  const bound = await server.listen({ host: '127.0.0.1', port, tls })
  assert.ok('port' in bound)
  const stop = () => server.drain(0)
  t.after(stop)
  /** Returns the stream with this number, from 0. */
  const stream = (index: number) => waitFor(`stream ${index}`, () => streams[index])
  return { address: `127.0.0.1:${bound.port}`, streams, stream, stop }
}

/** Returns a summary of a client's request: `ack v1 (nonce of v1)`. */
export function inShort({ versionInfo, responseNonce, errorDetail }: DiscoveryRequest): string {
  return `${errorDetail === undefined ? 'ack' : 'nack'} ${versionInfo} (${responseNonce})`
}
