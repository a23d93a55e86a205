import { create, fromBinary, toBinary, toJson } from '@bufbuild/protobuf'
import { StreamRouteSchema } from '@tollway/proto/tollway/broker/v1/stream_route'
import type { OpenedStreamRoute } from '../../translated-types.ts'
import { createResource, type Resource } from '../../xds/snapshot.ts'

/** Shown in place of a secret. */
const hiddenSecret = '(hidden)'

/** The type that brokers request. */
export const streamRouteTypeUrl = 'type.googleapis.com/tollway.broker.v1.StreamRoute'

/**
 * Encodes a route for the feed. Equal routes have equal bytes: fields are written in the order of their
 * numbers.
 */
export function encodeStreamRoute({ route, createdMs, tokens, webhook }: OpenedStreamRoute): Resource {
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
    ...encodeTokens(tokens),
    ...(webhook && { webhook: { url: webhook.url, secrets: [...webhook.secrets] } }),
  })
  return createResource(name, toBinary(StreamRouteSchema, message))
}

/**
 * Tokens with both rights are in one field, which brokers of all versions know. If the rights have different
 * tokens, older brokers get the tokens of both rights: there each token has both, but the route is never open
 * to everyone.
 */
function encodeTokens({ push, pull }: OpenedStreamRoute['tokens']) {
  const isIn = (hashes: readonly Uint8Array[]) => (hash: Uint8Array) =>
    hashes.some(other => Buffer.compare(other, hash) === 0)
  const more = pull.filter(hash => !isIn(push)(hash))
  const isShared = more.length === 0 && push.every(isIn(pull))
  if (isShared) return { tokenHashes: [...push] }
  return { tokenHashes: [...push, ...more], pushTokenHashes: [...push], pullTokenHashes: [...pull] }
}

/** Returns the message as JSON, without its secrets. */
export function showStreamRoute(bytes: Uint8Array): unknown {
  const message = fromBinary(StreamRouteSchema, bytes)
  if (message.webhook !== undefined) {
    message.webhook.secrets = message.webhook.secrets.map(() => hiddenSecret)
  }
  return toJson(StreamRouteSchema, message)
}
