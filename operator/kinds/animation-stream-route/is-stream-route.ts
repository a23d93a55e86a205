import { isObject } from '@tollway/chassis/is-object.ts'
import type { StreamRoute } from '../../translated-types.ts'

/**
 * Returns whether a stored value, written by this version or another one, is a valid route of this version.
 */
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

/** Returns the names of all fields of a type: the compiler reports one that is missing or unknown. */
const fieldsOf = <Fields extends object>(fields: Readonly<Record<keyof Fields, true>>) =>
  Object.keys(fields) as unknown as readonly (keyof Fields)[]

const limitNames = fieldsOf<StreamRoute['limits']>({
  messageBytes: true,
  bufferBytes: true,
  bufferSeconds: true,
  idleSeconds: true,
  totalSeconds: true,
  consumers: true,
  streams: true,
})

const ruleNames = fieldsOf<Omit<StreamRoute['rules'], 'audioFormats'>>({
  order: true,
  timeCodes: true,
  counts: true,
  audio: true,
})

const formatNames = ['channelCount', 'samplesPerSecond', 'bitsPerSample'] as const

function isRules(value: unknown): boolean {
  if (!isObject<StreamRoute['rules']>(value)) return false
  if (!ruleNames.every(name => isOneOf(value[name], ['off', 'warn', 'reject']))) return false
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
