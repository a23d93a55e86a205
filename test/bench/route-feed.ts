import { create, fromBinary, toBinary } from '@bufbuild/protobuf'
import { createGrpcServer } from '@tollway/grpc/server/create-server.ts'
import {
  DiscoveryRequestSchema,
  DiscoveryResponseSchema,
} from '@tollway/proto/envoy/service/discovery/v3/discovery'
import { StreamRouteSchema } from '@tollway/proto/tollway/broker/v1/stream_route'

/** The fields of the route; other fields have the broker's defaults. */
export interface FedRoute {
  readonly slowConsumers?: string
  readonly bufferBytes?: number
  readonly bufferSeconds?: number
}

const typeUrl = 'type.googleapis.com/tollway.broker.v1.StreamRoute'

/**
 * Starts a feed with one route that matches everything, for brokers that are started with the returned
 * settings.
 */
export async function startRouteFeed({ slowConsumers = '', bufferBytes = 0, bufferSeconds = 0 }: FedRoute) {
  const route = create(StreamRouteSchema, {
    name: 'bench/all',
    slowConsumers,
    limits: { bufferBytes: BigInt(bufferBytes), bufferSeconds },
  })
  const response = create(DiscoveryResponseSchema, {
    versionInfo: '1',
    nonce: '1',
    typeUrl,
    resources: [{ typeUrl, value: toBinary(StreamRouteSchema, route) }],
  })
  const server = createGrpcServer({
    methods: [
      {
        path: '/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources',
        kind: 'bidi',
        decode: bytes => fromBinary(DiscoveryRequestSchema, bytes),
        encode: () => toBinary(DiscoveryResponseSchema, response),
        async *handle(requests: AsyncIterable<unknown>) {
          let answered = false
          for await (const _ of requests) {
            if (!answered) yield response
            answered = true
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
  const settings = { ROUTES: 'feed', CONFIG_GRPC_XDS_SERVER_URL: `127.0.0.1:${bound.port}` }
  return { settings, stop: () => server.drain(0) }
}
