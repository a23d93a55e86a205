import { isObject } from '@tollway/chassis/is-object.ts'
import { findWebhookSecretProblem, webhookSecretForm } from '@tollway/chassis/webhooks/webhook-secret.ts'
import { email, id, list, textField, webAddress } from '../../domain/input/fields.ts'
import {
  optionalField,
  parseInput,
  type Reader,
  reader,
  record,
  rejectValue,
  requiredField,
  withDefault,
} from '../../domain/input/record.ts'
import { parseMerchant } from '../../domain/input/request-bodies.ts'
import { type MerchantInput, maxNameCharacters } from '../../domain/merchant.ts'
import { accept, type Result, reject, rejectFields } from '../../domain/rejections.ts'
import { eventTypes } from '../events.ts'
import { eventType } from './webhooks.ts'

/** The desired state of a Merchant resource of Kubernetes. */
export interface ProvisionInput {
  readonly merchant: MerchantInput
  readonly app: { readonly name: string | null }
  /** The SHA-256, in hex, of an API key that the caller has created and stored. */
  readonly keyHash: string
  /** How long the other keys of the app stay valid. Null does not change them. */
  readonly otherKeysExpireInMs: number | null
  /** The e-mail addresses of people to invite. Members who are not in the list keep their membership. */
  readonly users: readonly string[]
  /** All webhooks of the resource. Those of an earlier state that are not in this list are disabled. */
  readonly webhooks: readonly WebhookInput[]
  /** An existing merchant to use for the resource. Null creates a merchant. */
  readonly adopt: Adoption | null
}

interface Adoption {
  readonly merchantId: string
  /**
   * The SHA-256 of a key of an app that has access to the merchant, which proves the right to adopt. Null is
   * accepted only if the resource has adopted the merchant already.
   */
  readonly keyHash: string | null
}

export interface WebhookInput {
  readonly url: string
  /** The types of the events to deliver; empty for all. */
  readonly events: readonly string[]
  /** The secrets that sign events, the newest first. */
  readonly secrets: readonly string[]
}

const maxUsers = 100
const maxWebhooks = 20
/** The present secret and the previous one, for a rotation. */
const maxSecrets = 2
const maxGraceMs = 365 * 24 * 60 * 60 * 1000

const hash: Reader<string> = reader({ type: 'string' }, (value, place) => {
  if (typeof value === 'string' && /^[0-9a-f]{64}$/.test(value)) return value
  return rejectValue(place, 'format', 'is not a SHA-256 in 64 hexadecimal digits')
})

const milliseconds: Reader<number> = reader({ type: 'integer' }, (value, place) => {
  if (typeof value === 'number' && Number.isInteger(value) && value >= 0 && value <= maxGraceMs) return value
  return rejectValue(place, 'type', `is not a whole number of milliseconds from 0 to ${maxGraceMs}`)
})

/** Reads a webhook secret. Error messages never quote it. */
const secret: Reader<string> = reader({ type: 'string' }, (value, place) => {
  const fault = typeof value === 'string' ? findWebhookSecretProblem(value) : 'is not a string'
  if (typeof value === 'string' && fault === undefined) return value
  return rejectValue(place, 'format', `${fault}; allowed is ${webhookSecretForm}`)
})

const webhook = record({
  url: requiredField(webAddress),
  events: withDefault(list(eventType, eventTypes.length), []),
  secrets: requiredField(list(secret, maxSecrets, 1)),
})

/** Accepts any value; `parseMerchant` validates it. */
const anything: Reader<unknown> = reader({}, value => value)

const provision = record({
  merchant: requiredField(anything),
  app: withDefault(record({ name: optionalField(textField(maxNameCharacters)) }), { name: null }),
  keyHash: requiredField(hash),
  otherKeysExpireInMs: optionalField(milliseconds),
  users: withDefault(list(email, maxUsers), []),
  webhooks: withDefault(list(webhook, maxWebhooks), []),
  adopt: optionalField(record({ merchantId: requiredField(id), keyHash: optionalField(hash) })),
})

/** Parses the body of PUT /provision/merchants/<uid>. A rejection has all errors, not only the first. */
export function parseProvision(body: unknown, fundingCurrencies: readonly string[]): Result<ProvisionInput> {
  const parsed = parseInput(provision, body, 'json')
  const merchant = parseMerchant(isObject(body) ? body['merchant'] : undefined, 'json', fundingCurrencies)
  if (parsed.ok && merchant.ok) return accept({ ...parsed.value, merchant: merchant.value })
  const own = parsed.ok ? [] : parsed.rejection.fields
  const inner = merchant.ok ? [] : merchant.rejection.fields
  return rejectFields([...own, ...inner.map(fault => ({ ...fault, field: `merchant.${fault.field}` }))])
}

const uidPattern = /^[\w.:-]{1,128}$/

const maxBooks = 100

const books = record({ uids: requiredField(list(textField(128), maxBooks)) })

export function parseBooks(body: unknown): Result<{ readonly uids: readonly string[] }> {
  return parseInput(books, body, 'json')
}

/** Rejects a uid of another form as `not_found`. */
export function parseUid(text: string): Result<string> {
  return uidPattern.test(text) ? accept(text) : reject('not_found')
}
