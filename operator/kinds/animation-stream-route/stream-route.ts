import { create, fromBinary, toBinary, toJson } from '@bufbuild/protobuf'
import { isObject } from '@tollway/chassis/is-object.ts'
import {
  type AnimationStreamRouteSpec,
  animationStreamRouteKind,
} from '@tollway/crds/animation-stream-route.ts'
import { validateResource } from '@tollway/crds/validate.ts'
import { StreamRouteSchema } from '@tollway/proto/tollway/broker/v1/stream_route'
import type { OpenedStreamRoute, StreamRoute } from '../../model.ts'
import { createResource, type Resource } from '../../xds/snapshot.ts'
import type { ResourceProblem, Translation } from '../kind-adapter.ts'

const hiddenSecret = '(hidden)'

/** The type URL that brokers request from the feed. */
export const streamRouteType = 'type.googleapis.com/tollway.broker.v1.StreamRoute'

/**
 * Encodes a route for the feed. Equal routes yield equal bytes, because fields are written in the order of
 * their numbers.
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
 * Puts tokens that have both rights into one field, which brokers of all versions know. If the rights differ,
 * that field has the tokens of either right. An older broker then gives each token both rights, but never
 * opens the route to everyone.
 */
function encodeTokens({ push, pull }: OpenedStreamRoute['tokens']) {
  const isIn = (hashes: readonly Uint8Array[]) => (hash: Uint8Array) =>
    hashes.some(other => Buffer.compare(other, hash) === 0)
  const more = pull.filter(hash => !isIn(push)(hash))
  const isShared = more.length === 0 && push.every(isIn(pull))
  if (isShared) return { tokenHashes: [...push] }
  return { tokenHashes: [...push, ...more], pushTokenHashes: [...push], pullTokenHashes: [...pull] }
}

/** Decodes a route of the feed as JSON. Signing secrets are replaced by `hiddenSecret`. */
export function showStreamRoute(bytes: Uint8Array): unknown {
  const message = fromBinary(StreamRouteSchema, bytes)
  if (message.webhook !== undefined) {
    message.webhook.secrets = message.webhook.secrets.map(() => hiddenSecret)
  }
  return toJson(StreamRouteSchema, message)
}

/** Returns whether a stored value is a valid route of this version. Another version may have written it. */
export function isStreamRoute(value: unknown): value is StreamRoute {
  if (!isObject<StreamRoute>(value)) return false
  const { name, match, rules, lateJoiners, slowConsumers, concurrentRequests, limits } = value
  const secrets = [value.tokenSecret, value.pushTokenSecret, value.pullTokenSecret]
  return (
    typeof name === 'string' &&
    hasTexts(match, ['sourceServiceId', 'streamIdPrefix', 'targetObjectId']) &&
    isRules(rules) &&
    isLateJoiners(lateJoiners) &&
    isOneOf(slowConsumers, ['wait', 'drop-oldest', 'cut-off']) &&
    isOneOf(concurrentRequests, ['queue', 'newest', 'refuse']) &&
    hasNumbers(limits, limitNames, 1) &&
    secrets.every(secret => secret === undefined || hasTexts(secret, ['name', 'key'])) &&
    isWebhook(value.webhook)
  )
}

/** Returns the names of all fields of a type. The compiler reports a missing or unknown name. */
const listFields = <Fields extends object>(fields: Readonly<Record<keyof Fields, true>>) =>
  Object.keys(fields) as unknown as readonly (keyof Fields)[]

const limitNames = listFields<StreamRoute['limits']>({
  messageBytes: true,
  bufferBytes: true,
  bufferSeconds: true,
  idleSeconds: true,
  totalSeconds: true,
  consumers: true,
  streams: true,
})

const requiredRules = listFields<Omit<StreamRoute['rules'], 'audioFormats'>>({
  order: true,
  timeCodes: true,
  counts: true,
  audio: true,
})

const formatNames = ['channelCount', 'samplesPerSecond', 'bitsPerSample'] as const

function isRules(value: unknown): boolean {
  if (!isObject<StreamRoute['rules']>(value)) return false
  if (!requiredRules.every(name => isOneOf(value[name], ['off', 'warn', 'reject']))) return false
  const { audioFormats } = value
  return Array.isArray(audioFormats) && audioFormats.every(format => hasNumbers(format, formatNames, 0))
}

function isLateJoiners(value: unknown): boolean {
  if (!isObject<{ from: unknown; seconds: unknown }>(value)) return false
  return value.from === 'last' ? hasNumbers(value, ['seconds'], 1) : isOneOf(value.from, ['now', 'start'])
}

function isWebhook(value: unknown): boolean {
  if (value === undefined) return true
  if (!isObject<{ url: unknown; secret: unknown }>(value)) return false
  return typeof value.url === 'string' && hasTexts(value.secret, ['name', 'key'])
}

function isOneOf(value: unknown, words: readonly string[]): boolean {
  return typeof value === 'string' && words.includes(value)
}

function hasTexts(value: unknown, names: readonly string[]): boolean {
  return isObject<Record<string, unknown>>(value) && names.every(name => typeof value[name] === 'string')
}

function hasNumbers(value: unknown, names: readonly string[], minimum: number): boolean {
  if (!isObject<Record<string, unknown>>(value)) return false
  return names.every(name => Number.isSafeInteger(value[name]) && Number(value[name]) >= minimum)
}

/**
 * Translates an AnimationStreamRoute to the form of brokers. The tokens are added later, because they are in
 * Secrets.
 */
export function translateAnimationStreamRoute(name: string, resource: unknown): Translation<StreamRoute> {
  const checked = validateResource<AnimationStreamRouteSpec>(animationStreamRouteKind, resource)
  if ('problems' in checked) return { problems: checked.problems }
  return { value: toRoute(name, checked.value), warnings: findWarnings(checked.value) }
}

const slowConsumers = { wait: 'wait', dropOldest: 'drop-oldest', cutOff: 'cut-off' } as const

function toRoute(name: string, spec: AnimationStreamRouteSpec): StreamRoute {
  const { match, rules, lateJoiners, limits, concurrentRequests } = spec
  const { tokenSecretRef, pushTokenSecretRef, pullTokenSecretRef } = spec
  const { from, seconds = 0 } = lateJoiners
  const { webhook } = spec.notify ?? {}
  return {
    name,
    match,
    rules,
    lateJoiners: from === 'last' ? { from, seconds } : { from },
    slowConsumers: slowConsumers[spec.slowConsumers],
    concurrentRequests,
    limits,
    ...(tokenSecretRef && { tokenSecret: tokenSecretRef }),
    ...(pushTokenSecretRef && { pushTokenSecret: pushTokenSecretRef }),
    ...(pullTokenSecretRef && { pullTokenSecret: pullTokenSecretRef }),
    ...(webhook && { webhook: { url: webhook.url, secret: webhook.secretRef } }),
  }
}

/** Returns warnings about settings that are valid but have no effect. */
function findWarnings({ rules }: AnimationStreamRouteSpec): readonly ResourceProblem[] {
  if (rules.audio !== 'off' || rules.audioFormats.length === 0) return []
  const message = 'the formats have no effect, since the rule audio is off'
  return [{ path: 'spec.rules.audioFormats', message }]
}
