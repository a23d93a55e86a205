import { type AddressPolicy, createAddressPolicy } from '@tollway/chassis/webhooks/address-policy.ts'
import { checkWebhookUrl } from '@tollway/chassis/webhooks/webhook-url.ts'
import { flag, maxUrlCharacters, oneOf, text, webAddress } from '../../domain/input/fields.ts'
import { list } from '../../domain/input/list.ts'
import {
  described,
  type Encoding,
  invalid,
  optional,
  parseInput,
  type Reader,
  reader,
  record,
  refuseValue,
  required,
  withDefault,
} from '../../domain/input/record.ts'
import type { Refused } from '../../domain/refusals.ts'
import { type EventType, eventTypes } from '../announce.ts'

export interface NewWebhookInput {
  readonly url: string
  /** Types of events; empty for all. */
  readonly events: readonly EventType[]
}

/** Null leaves it as it is. */
export interface WebhookUpdate {
  readonly url: string | null
  readonly events: readonly EventType[] | null
  readonly disabled: boolean | null
}

/** Public addresses by https only. */
export const strictPolicy: AddressPolicy = createAddressPolicy([], false)

export const eventType: Reader<EventType> = oneOf(eventTypes)

const typeList = described(
  list(eventType, eventTypes.length),
  'The types of events to deliver. Empty means all. In a form, they are separated by commas',
)

/** A list; in a form, the types separated by commas. */
const types: Reader<readonly EventType[]> = reader(typeList.schema, (value, place) => {
  const isText = place.encoding === 'form' && typeof value === 'string'
  return typeList(isText ? value.split(',') : value, place)
})

const urlText = text(maxUrlCharacters)
const urlSchema = { ...webAddress.schema, description: 'An https URL with a public address' }

function webhookUrl(policy: AddressPolicy): Reader<string> {
  return reader(urlSchema, (value, place) => {
    const found = urlText(value, place)
    if (found === invalid) return invalid
    const checked = checkWebhookUrl(found, policy)
    return 'url' in checked ? found : refuseValue(place, 'format', checked.problem)
  })
}

const webhookBody = (policy: AddressPolicy) =>
  record({ url: required(webhookUrl(policy)), events: withDefault(types, []) })

const updateBody = (policy: AddressPolicy) =>
  record({ url: optional(webhookUrl(policy)), events: optional(types), disabled: optional(flag) })

/** The JSON Schemas of the bodies. */
export const webhookSchemas = {
  WebhookInput: webhookBody(strictPolicy).schema,
  WebhookUpdate: updateBody(strictPolicy).schema,
}

/** POST /merchants/<id>/webhooks. */
export function parseWebhook(
  body: unknown,
  encoding: Encoding,
  policy: AddressPolicy = strictPolicy,
): NewWebhookInput | Refused {
  return parseInput(webhookBody(policy), body, encoding)
}

/** PUT /webhooks/<id>. */
export function parseWebhookUpdate(
  body: unknown,
  encoding: Encoding,
  policy: AddressPolicy = strictPolicy,
): WebhookUpdate | Refused {
  return parseInput(updateBody(policy), body, encoding)
}
