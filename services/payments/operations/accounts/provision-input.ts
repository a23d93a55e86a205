import { webhookSecretFault, webhookSecretForm } from '@tollway/chassis/webhooks/webhook-secret.ts'
import { email, id, text, webAddress } from '../../domain/input/fields.ts'
import { type MerchantInput, maxNameCharacters, parseMerchant } from '../../domain/input/inputs.ts'
import { list } from '../../domain/input/list.ts'
import {
  isRecord,
  optional,
  parseInput,
  type Reader,
  record,
  refuseValue,
  required,
  withDefault,
} from '../../domain/input/record.ts'
import { isRefused, type Refused, refuse, refuseFields } from '../../domain/refusals.ts'
import { eventTypes } from '../announce.ts'
import { eventType } from './webhook-input.ts'

/** What a resource wants: a merchant, an app with complete access to it, its members and webhooks. */
export interface ProvisionInput {
  readonly merchant: MerchantInput
  readonly app: { readonly name: string | null }
  /** SHA-256 in hex of an API key that the caller has made and keeps. */
  readonly keyHash: string
  /** After this time the app's other keys open nothing; null leaves them as they are. */
  readonly otherKeysExpireInMs: number | null
  /** E-mail addresses of people to invite. No member is removed. */
  readonly users: readonly string[]
  /** All webhooks of the resource: others that it had are disabled. */
  readonly webhooks: readonly WebhookInput[]
  /** A merchant that is there already and is to become that of the resource; null to make a new one. */
  readonly adopt: Adoption | null
}

export interface Adoption {
  readonly merchantId: string
  /** Of a key of an app that has the merchant: proves the right to it. Null takes only one adopted before. */
  readonly keyHash: string | null
}

export interface WebhookInput {
  readonly url: string
  /** Types of events; empty for all. */
  readonly events: readonly string[]
  /** What signatures are made with, the newest first. */
  readonly secrets: readonly string[]
}

const maxUsers = 100
const maxWebhooks = 20
/** Two while they are rotated. */
const maxSecrets = 2
const maxGraceMs = 365 * 24 * 60 * 60 * 1000

const hash: Reader<string> = (value, place) => {
  if (typeof value === 'string' && /^[0-9a-f]{64}$/.test(value)) return value
  return refuseValue(place, 'format', 'is no SHA-256 in 64 hexadecimal digits')
}

const milliseconds: Reader<number> = (value, place) => {
  if (typeof value === 'number' && Number.isInteger(value) && value >= 0 && value <= maxGraceMs) return value
  return refuseValue(place, 'type', `is no whole number of milliseconds from 0 to ${maxGraceMs}`)
}

/** Never quoted in a message. */
const secret: Reader<string> = (value, place) => {
  const fault = typeof value === 'string' ? webhookSecretFault(value) : 'is no text'
  if (typeof value === 'string' && fault === undefined) return value
  return refuseValue(place, 'format', `${fault}; allowed is ${webhookSecretForm}`)
}

const webhook = record({
  url: required(webAddress),
  events: withDefault(list(eventType, eventTypes.length), []),
  secrets: required(list(secret, maxSecrets, 1)),
})

/** Looked into by the parser of merchants. */
const anything: Reader<unknown> = value => value

const provision = record({
  merchant: required(anything),
  app: withDefault(record({ name: optional(text(maxNameCharacters)) }), { name: null }),
  keyHash: required(hash),
  otherKeysExpireInMs: optional(milliseconds),
  users: withDefault(list(email, maxUsers), []),
  webhooks: withDefault(list(webhook, maxWebhooks), []),
  adopt: optional(record({ merchantId: required(id), keyHash: optional(hash) })),
})

/** Parses the body of PUT /provision/merchants/<uid>. All problems are reported at once. */
export function parseProvision(
  body: unknown,
  fundingCurrencies: readonly string[],
): ProvisionInput | Refused {
  const parsed = parseInput(provision, body, 'json')
  const merchant = parseMerchant(isRecord(body) ? body['merchant'] : undefined, 'json', fundingCurrencies)
  if (!isRefused(parsed) && !isRefused(merchant)) return { ...parsed, merchant }
  const own = isRefused(parsed) ? parsed.refusal.fields : []
  const inner = isRefused(merchant) ? merchant.refusal.fields : []
  return refuseFields([...own, ...inner.map(fault => ({ ...fault, field: `merchant.${fault.field}` }))])
}

const uidPattern = /^[\w.:-]{1,128}$/

/** The uid of a resource: 1 to 128 letters, digits, `.`, `_`, `:` and `-`. */
export function parseUid(text: string): string | Refused {
  return uidPattern.test(text) ? text : refuse('not_found')
}
