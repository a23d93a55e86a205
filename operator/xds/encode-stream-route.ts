import { create, fromBinary, toBinary, toJson } from '@bufbuild/protobuf'
import { StreamRouteSchema } from '@tollway/proto/tollway/broker/v1/stream_route'
import type { OpenedStreamRoute } from '../ir.ts'
import { createResource, type Resource } from './snapshot.ts'

/** The type that brokers ask for. */
export const streamRouteTypeUrl = 'type.googleapis.com/tollway.broker.v1.StreamRoute'

/**
 * A route as the feed carries it. Equal ones have equal bytes: fields are written in the order of their numbers.
 */
export function encodeStreamRoute({ route, createdMs, tokenHashes }: OpenedStreamRoute): Resource {
  const { name, match, rules, lateJoiners, limits } = route
  const message = create(StreamRouteSchema, {
    name,
    createdMs: BigInt(Math.round(createdMs)),
    match,
    rules: { ...rules, audioFormats: [...rules.audioFormats] },
    lateJoiners: lateJoiners.from,
    lateJoinerSeconds: lateJoiners.from === 'last' ? lateJoiners.seconds : 0,
    slowConsumers: route.slowConsumers,
    concurrentRequests: route.concurrentRequests,
    limits: {
      ...limits,
      messageBytes: BigInt(limits.messageBytes),
      bufferBytes: BigInt(limits.bufferBytes),
    },
    tokenHashes: [...tokenHashes],
  })
  return createResource(name, toBinary(StreamRouteSchema, message))
}

/** The message as JSON. */
export function showStreamRoute(bytes: Uint8Array): unknown {
  return toJson(StreamRouteSchema, fromBinary(StreamRouteSchema, bytes))
}
