import { fromBinary } from '@bufbuild/protobuf'
import { maxDurationMs } from '@tollway/chassis/settings.ts'
import { quote } from '@tollway/chassis/text.ts'
import { findWebhookSecretProblem, webhookSecretForm } from '@tollway/chassis/webhooks/webhook-secret.ts'
import {
  type StreamRoute,
  type StreamRoute_Limits,
  type StreamRoute_Match,
  type StreamRoute_Rules,
  StreamRouteSchema,
} from '@tollway/proto/tollway/broker/v1/stream_route'
import { countCharacters, maxIdCharacters } from '../wire/animation-ids.ts'
import {
  concurrentRequestPolicies,
  defaultRoute,
  type LateJoiners,
  type Route,
  type RouteLimits,
  type RouteMatch,
  type RouteRules,
  ruleModes,
  slowConsumerPolicies,
} from './route.ts'

export type DecodedRoute =
  | { readonly kind: 'route'; readonly route: Route }
  | { readonly kind: 'invalid'; readonly problems: readonly string[] }

/** The longest message that a route may allow: the broker could not send a longer one to a consumer. */
const maxMessageBytes = 64 * 1024 * 1024
/** The largest buffer of one request. */
const maxBufferBytes = 1024 * 1024 * 1024
const maxAudioFormats = 100
const maxTokenHashes = 1000
const maxUrlCharacters = 2048
const maxSigningSecrets = 16

const minSeconds = 0.001
const maxSeconds = maxDurationMs / 1000
const hashBytes = 32
const lateJoinerWords = ['now', 'start', 'last'] as const
/** Matches two Kubernetes names, of at most 63 and 253 characters. */
const nameForm = /^[a-z0-9-]{1,63}\/[a-z0-9.-]{1,253}$/

/**
 * Decodes a `tollway.broker.v1.StreamRoute` with every default filled in. Otherwise returns every problem in
 * one line: `<name of the route>: <field>: <found value> is not allowed: <allowed values>`, with fields as in
 * JSON.
 *
 * @param label the name of a route without a valid one
 */
export function decodeRoute(bytes: Uint8Array, label: string): DecodedRoute {
  const message = parse(bytes)
  if (message instanceof Error) return { kind: 'invalid', problems: [`${label}: ${message.message}`] }
  const isNamed = nameForm.test(message.name)
  const reader = createReader(isNamed ? message.name : label)
  if (!isNamed) reader.reject('name', quote(message.name), 'namespace/name, as in Kubernetes')
  const route: Route = {
    name: message.name,
    createdMs: reader.integer('createdMs', message.createdMs, 0, Number.MAX_SAFE_INTEGER, 0),
    match: readMatch(message.match, reader),
    rules: readRules(message.rules, reader),
    lateJoiners: readLateJoiners(message, reader),
    slowConsumers: reader.word('slowConsumers', message.slowConsumers, slowConsumerPolicies, 'wait'),
    concurrentRequests: reader.word(
      'concurrentRequests',
      message.concurrentRequests,
      concurrentRequestPolicies,
      'queue',
    ),
    limits: readLimits(message.limits, reader),
    tokens: readTokens(message, reader),
    ...readWebhook(message, reader),
  }
  const { problems } = reader
  return problems.length > 0 ? { kind: 'invalid', problems } : { kind: 'route', route }
}

function parse(bytes: Uint8Array): StreamRoute | Error {
  try {
    return fromBinary(StreamRouteSchema, bytes)
  } catch (error) {
    return error as Error
  }
}

/** Reads fields, and collects their problems. A field that is empty or 0 gets the fallback. */
function createReader(source: string) {
  const problems: string[] = []
  const reject = (field: string, found: string, allowed: string) =>
    void problems.push(`${source}: ${field}: ${found} is not allowed: ${allowed}`)

  function inRange(
    field: string,
    value: number | bigint,
    min: number,
    max: number,
    allowed: string,
  ): boolean {
    const isRight = value >= min && value <= max
    if (!isRight) reject(field, `${value}`, allowed)
    return isRight
  }

  return {
    problems,
    reject,
    word<const Word extends string>(
      field: string,
      text: string,
      words: readonly Word[],
      fallback: Word,
    ): Word {
      if (text === '') return fallback
      const word = words.find(known => known === text)
      if (word === undefined) reject(field, quote(text), `one of ${words.join(', ')}`)
      return word ?? fallback
    },
    integer(field: string, value: bigint, min: number, max: number, fallback: number): number {
      const allowed = `a whole number from ${min} to ${max}`
      return value !== 0n && inRange(field, value, min, max, allowed) ? Number(value) : fallback
    },
    seconds(field: string, value: number, fallback: number): number {
      const allowed = `a number from ${minSeconds} to ${maxSeconds}`
      return value !== 0 && inRange(field, value, minSeconds, maxSeconds, allowed) ? value : fallback
    },
    id(field: string, text: string): string {
      const characters = countCharacters(text)
      if (characters > maxIdCharacters) {
        reject(field, `a text of ${characters} characters`, `at most ${maxIdCharacters}`)
      }
      return text
    },
    list<T>(field: string, items: readonly T[], max: number): readonly T[] {
      if (items.length > max) reject(field, `a list of ${items.length}`, `at most ${max}`)
      return items.slice(0, max)
    },
  }
}

type Reader = ReturnType<typeof createReader>

function readMatch(match: StreamRoute_Match | undefined, { id }: Reader): RouteMatch {
  if (match === undefined) return defaultRoute.match
  return {
    sourceServiceId: id('match.sourceServiceId', match.sourceServiceId),
    streamIdPrefix: id('match.streamIdPrefix', match.streamIdPrefix),
    targetObjectId: id('match.targetObjectId', match.targetObjectId),
  }
}

function readRules(rules: StreamRoute_Rules | undefined, { word, list }: Reader): RouteRules {
  const fallback = defaultRoute.rules
  if (rules === undefined) return fallback
  return {
    order: word('rules.order', rules.order, ruleModes, fallback.order),
    timeCodes: word('rules.timeCodes', rules.timeCodes, ruleModes, fallback.timeCodes),
    counts: word('rules.counts', rules.counts, ruleModes, fallback.counts),
    audio: word('rules.audio', rules.audio, ruleModes, fallback.audio),
    audioFormats: list('rules.audioFormats', rules.audioFormats, maxAudioFormats).map(
      ({ channelCount, samplesPerSecond, bitsPerSample }) => ({
        channelCount,
        samplesPerSecond,
        bitsPerSample,
      }),
    ),
  }
}

function readLateJoiners(message: StreamRoute, { word, seconds, reject }: Reader): LateJoiners {
  const from = word('lateJoiners', message.lateJoiners, lateJoinerWords, 'now')
  const found = message.lateJoinerSeconds
  if (from === 'last') {
    if (found === 0) reject('lateJoinerSeconds', '0', 'more than 0 where lateJoiners is last')
    return { from, seconds: seconds('lateJoinerSeconds', found, 0) }
  }
  if (found !== 0) reject('lateJoinerSeconds', `${found}`, 'nothing where lateJoiners is not last')
  return { from }
}

function readLimits(limits: StreamRoute_Limits | undefined, { integer, seconds }: Reader): RouteLimits {
  const fallback = defaultRoute.limits
  if (limits === undefined) return fallback
  const bytes = (field: 'messageBytes' | 'bufferBytes', max: number) =>
    integer(`limits.${field}`, limits[field], 1, max, fallback[field])
  const time = (field: 'bufferSeconds' | 'idleSeconds' | 'totalSeconds') =>
    seconds(`limits.${field}`, limits[field], fallback[field])
  return {
    messageBytes: bytes('messageBytes', maxMessageBytes),
    bufferBytes: bytes('bufferBytes', maxBufferBytes),
    bufferSeconds: time('bufferSeconds'),
    idleSeconds: time('idleSeconds'),
    totalSeconds: time('totalSeconds'),
    consumers: limits.consumers || fallback.consumers,
    streams: limits.streams || fallback.streams,
  }
}

function readTokens(message: StreamRoute, reader: Reader): Route['tokens'] {
  const [both, push, pull] = (['tokenHashes', 'pushTokenHashes', 'pullTokenHashes'] as const).map(field =>
    readHashes(field, message[field], reader),
  ) as [Uint8Array[], Uint8Array[], Uint8Array[]]
  return push.length + pull.length > 0 ? { push, pull } : { push: both, pull: both }
}

function readHashes(field: string, hashes: readonly Uint8Array[], { list, reject }: Reader): Uint8Array[] {
  const found = list(field, hashes, maxTokenHashes)
  for (const [index, hash] of found.entries()) {
    if (hash.length === hashBytes) continue
    reject(`${field}[${index}]`, `${hash.length} bytes`, `the ${hashBytes} bytes of a SHA-256`)
  }
  // `subarray` would keep the bytes of the whole response alive.
  return found.map(hash => hash.slice())
}

/** Reads the webhook. Its problems quote no secret. */
function readWebhook({ webhook }: StreamRoute, { list, reject }: Reader): Pick<Route, 'webhook'> {
  if (webhook === undefined) return {}
  const { url } = webhook
  if (!/^https?:\/\/\S+$/.test(url) || url.length > maxUrlCharacters) {
    reject('webhook.url', quote(url), `an http or https URL of at most ${maxUrlCharacters} characters`)
  }
  const secrets = list('webhook.secrets', webhook.secrets, maxSigningSecrets)
  if (secrets.length === 0) reject('webhook.secrets', 'an empty list', 'at least one')
  for (const [index, secret] of secrets.entries()) {
    const fault = findWebhookSecretProblem(secret)
    if (fault !== undefined) {
      reject(`webhook.secrets[${index}]`, `a text that ${fault}`, webhookSecretForm)
    }
  }
  return { webhook: { url, secrets } }
}
