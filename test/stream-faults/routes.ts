import { randomUUID } from 'node:crypto'
import { create, type MessageInitShape, toBinary } from '@bufbuild/protobuf'
import { systemClock } from '@tollway/chassis/clock.ts'
import { silentLog } from '@tollway/chassis/log/log.ts'
import { createGrpcServer } from '@tollway/grpc/server/create-server.ts'
import { StreamRouteSchema } from '@tollway/proto/tollway/broker/v1/stream_route'
import { Feed } from '../../operator/xds/feed.ts'
import { createResource, createSnapshot } from '../../operator/xds/snapshot.ts'
import { routeTypeUrl } from '../../services/broker/routes/route-table.ts'
import type { Cleanup } from '../support/tollway.ts'

type RouteMessage = MessageInitShape<typeof StreamRouteSchema> & { readonly name: string }

/** The feed of an operator. A broker with these settings accepts calls after the first `publish`. */
export interface RouteServer {
  readonly settings: Readonly<Record<string, string>>
  publish(routes: readonly RouteMessage[]): void
}

export async function startRouteServer(t: Cleanup): Promise<RouteServer> {
  const feed = new Feed({
    ...{ typeUrls: [routeTypeUrl], ids: randomUUID, clock: systemClock, log: silentLog },
  })
  const server = createGrpcServer({
    methods: feed.methods,
    onDefect(_, error) {
      throw error
    },
  })
  const bound = await server.listen({ host: '127.0.0.1', port: 0 })
  if (!('port' in bound)) throw new Error('the feed has no port')
  t.after(async () => {
    feed.close()
    await server.drain(0)
  })
  return {
    settings: {
      ROUTES: 'feed',
      CONFIG_GRPC_XDS_SERVER_URL: `127.0.0.1:${bound.port}`,
      CONFIG_GRPC_XDS_NODE_ID: 'faults',
      CONFIG_GRPC_XDS_NODE_METADATA: 'pod:faults,uid:u-1,namespace:local',
    },
    publish(routes) {
      const resources = routes.map(route =>
        createResource(route.name, toBinary(StreamRouteSchema, create(StreamRouteSchema, route))),
      )
      feed.publish(createSnapshot(routeTypeUrl, resources))
    },
  }
}
