import { type AddressPolicy, createAddressPolicy } from '@tollway/chassis/webhooks/address-policy.ts'
import { checkWebhookUrl } from '@tollway/chassis/webhooks/webhook-url.ts'
import { flag, maxUrlCharacters, text } from '../../domain/input/fields.ts'
import { list } from '../../domain/input/list.ts'
import {
  type Encoding,
  invalid,
  optional,
  parseInput,
  quote,
  type Reader,
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

export const eventType: Reader<EventType> = (value, place) => {
  const found = eventTypes.find(type => type === value)
  return found ?? refuseValue(place, 'unsupported', `${quote(value)} is not one of ${eventTypes.join(', ')}`)
}

const typeList = list(eventType, eventTypes.length)

/** A list; in a form, the types separated by commas. */
const types: Reader<readonly EventType[]> = (value, place) => {
  const isText = place.encoding === 'form' && typeof value === 'string'
  return typeList(isText ? value.split(',') : value, place)
}

const urlText = text(maxUrlCharacters)

function webhookUrl(policy: AddressPolicy): Reader<string> {
  return (value, place) => {
    const found = urlText(value, place)
    if (found === invalid) return invalid
    const checked = checkWebhookUrl(found, policy)
    return 'url' in checked ? found : refuseValue(place, 'format', checked.problem)
  }
}

/** POST /merchants/<id>/webhooks. */
export function parseWebhook(
  body: unknown,
  encoding: Encoding,
  policy: AddressPolicy = strictPolicy,
): NewWebhookInput | Refused {
  const shape = { url: required(webhookUrl(policy)), events: withDefault(types, []) }
  return parseInput(record(shape), body, encoding)
}

/** PUT /webhooks/<id>. */
export function parseWebhookUpdate(
  body: unknown,
  encoding: Encoding,
  policy: AddressPolicy = strictPolicy,
): WebhookUpdate | Refused {
  const shape = { url: optional(webhookUrl(policy)), events: optional(types), disabled: optional(flag) }
  return parseInput(record(shape), body, encoding)
}
