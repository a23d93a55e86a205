import { create, fromBinary, type MessageInitShape, toBinary } from '@bufbuild/protobuf'
import { createGrpcServer } from '@tollway/grpc/server/create-server.ts'
import {
  type DiscoveryRequest,
  DiscoveryRequestSchema,
  DiscoveryResponseSchema,
} from '@tollway/proto/envoy/service/discovery/v3/discovery'
import { RateLimitConfigSchema } from '@tollway/proto/ratelimit/config/ratelimit/v3/rls_conf'

/** A management server that sends each content once to each process. */
export interface LimitFeed {
  /** The settings of the service. */
  readonly settings: Readonly<Record<string, string>>
  /** The requests of the processes, in order. One with `errorDetail` rejects a content. */
  readonly requests: readonly DiscoveryRequest[]
  /** Sends the bytes of a DiscoveryResponse, which `encodeResponse` creates. */
  send(response: Uint8Array): void
  stop(): Promise<void>
}

export type LimitDomainMessage = MessageInitShape<typeof RateLimitConfigSchema>

const typeUrl = 'type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig'

export async function startLimitFeed(): Promise<LimitFeed> {
  const requests: DiscoveryRequest[] = []
  let response: Uint8Array | undefined
  const waiting = new Set<() => void>()
  const server = createGrpcServer({
    methods: [
      {
        path: '/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources',
        kind: 'bidi',
        decode: bytes => fromBinary(DiscoveryRequestSchema, bytes),
        encode: (bytes: Uint8Array) => bytes,
        async *handle(received: AsyncIterable<DiscoveryRequest>) {
          let sent: Uint8Array | undefined
          for await (const request of received) {
            requests.push(request)
            while (response === undefined || response === sent) {
              await new Promise<void>(resolve => waiting.add(resolve))
            }
            sent = response
            yield response
          }
        },
      },
    ],
    onDefect(_, error) {
      throw error
    },
  })
  const bound = await server.listen({ host: '127.0.0.1', port: 0 })
  if (!('port' in bound)) throw new Error('the feed has no port')
  return {
    requests,
    settings: {
      CONFIG_TYPE: 'GRPC_XDS_SOTW',
      CONFIG_GRPC_XDS_SERVER_URL: `127.0.0.1:${bound.port}`,
      CONFIG_GRPC_XDS_NODE_ID: 'test',
      XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES: '100000000',
    },
    send(bytes) {
      response = bytes
      for (const wake of waiting) wake()
      waiting.clear()
    },
    stop: () => server.drain(0),
  }
}

export function encodeDomain(domain: LimitDomainMessage): Uint8Array {
  return toBinary(RateLimitConfigSchema, create(RateLimitConfigSchema, domain))
}

/** @param domains the encoded domains */
export function encodeResponse(version: string, domains: readonly Uint8Array[]): Uint8Array {
  const resources = domains.map(value => ({ typeUrl, value }))
  const message = { versionInfo: version, nonce: version, typeUrl, resources }
  return toBinary(DiscoveryResponseSchema, create(DiscoveryResponseSchema, message))
}
