import { AddressPolicy } from '@tollway/chassis/webhooks/address-policy.ts'
import { newWebhookSecret } from '@tollway/chassis/webhooks/webhook-secret.ts'
import { checkWebhookUrl } from '@tollway/chassis/webhooks/webhook-url.ts'
import {
  booleanFlag,
  enumeration,
  list,
  maxUrlCharacters,
  textField,
  webAddress,
} from '../../domain/input/fields.ts'
import {
  described,
  type Encoding,
  invalidValue,
  optionalField,
  parseInput,
  type Reader,
  reader,
  record,
  rejectValue,
  requiredField,
  withDefault,
} from '../../domain/input/record.ts'
import type { App } from '../../domain/merchant.ts'
import { accept, done, type Result, reject } from '../../domain/rejections.ts'
import {
  deliverAgain,
  retryUndelivered,
  type Waiting,
  waitingAt,
} from '../../storage/delivery/webhook-deliveries.ts'
import {
  deleteWebhookEndpoint,
  insertWebhookEndpoint,
  listWebhookEndpoints,
  updateWebhookEndpoint,
  type WebhookEndpoint,
  type WebhookEvent,
} from '../../storage/delivery/webhooks.ts'
import type { Tx } from '../../storage/storage.ts'
import { lockMerchant } from '../../storage/tables/merchants.ts'
import { type EventType, eventTypes } from '../events.ts'
import { generateId, type Payments } from '../operation.ts'
import { lockOwnWebhook, ownEvent, ownOpenMerchant, ownWebhook } from './access.ts'

/** Bounds the deliveries of an event. */
const maxWebhooks = 20
/** The newest secret and the previous one, which both sign events until the next rotation. */
const maxSecrets = 2

interface OfWebhook {
  readonly app: App
  readonly webhookId: string
}

export async function createWebhook(
  tx: Tx,
  payments: Payments,
  {
    app,
    merchantId,
    input,
  }: { readonly app: App; readonly merchantId: string; readonly input: NewWebhookInput },
): Promise<Result<WebhookEndpoint>> {
  const merchant = await ownOpenMerchant(tx, app, merchantId)
  if (!merchant.ok) return merchant
  // The lock keeps concurrent requests from exceeding the maximum together.
  await lockMerchant(tx, merchantId)
  const known = await listWebhookEndpoints(tx, merchantId, { limit: maxWebhooks })
  if ('items' in known && known.items.length >= maxWebhooks) {
    return reject('conflict', `The merchant has ${maxWebhooks} webhooks already, which is the maximum.`)
  }
  const endpoint: WebhookEndpoint = {
    id: generateId(payments),
    merchantId,
    createdMs: payments.clock.nowMs(),
    ...input,
    secrets: [newWebhookSecret(payments.randomBytes)],
    disabledMs: null,
  }
  await insertWebhookEndpoint(tx, endpoint)
  return accept(endpoint)
}

interface WebhookState {
  readonly endpoint: WebhookEndpoint
  readonly waiting: Waiting
}

export async function readWebhook(tx: Tx, { app, webhookId }: OfWebhook): Promise<Result<WebhookState>> {
  const endpoint = await ownWebhook(tx, app, webhookId)
  return endpoint.ok
    ? accept({ endpoint: endpoint.value, waiting: await waitingAt(tx, webhookId) })
    : endpoint
}

/** Locks an endpoint, and stores the fields that `change` returns. */
async function changeWebhook(
  tx: Tx,
  { app, webhookId }: OfWebhook,
  change: (endpoint: WebhookEndpoint) => Partial<WebhookEndpoint>,
): Promise<Result<WebhookEndpoint>> {
  const endpoint = await lockOwnWebhook(tx, app, webhookId)
  if (!endpoint.ok) return endpoint
  const changed = { ...endpoint.value, ...change(endpoint.value) }
  await updateWebhookEndpoint(tx, changed)
  return accept(changed)
}

/** Stores the fields that are not null. After `disabled: false`, waiting events are delivered. */
export function updateWebhook(
  tx: Tx,
  { clock }: Payments,
  { update: { url, events, disabled }, ...request }: OfWebhook & { readonly update: WebhookUpdate },
): Promise<Result<WebhookEndpoint>> {
  return changeWebhook(tx, request, endpoint => ({
    url: url ?? endpoint.url,
    events: events ?? endpoint.events,
    disabledMs: disabled === false ? null : (endpoint.disabledMs ?? (disabled ? clock.nowMs() : null)),
  }))
}

/** The previous secret signs as well until the next rotation, so that the receiver has time to switch. */
export function rotateSecret(
  tx: Tx,
  { randomBytes }: Payments,
  request: OfWebhook,
): Promise<Result<WebhookEndpoint>> {
  return changeWebhook(tx, request, ({ secrets }) => ({
    secrets: [newWebhookSecret(randomBytes), ...secrets].slice(0, maxSecrets),
  }))
}

/** Enables the endpoint, and makes all undelivered events due now, also those that were given up. */
export async function retryWebhook(
  tx: Tx,
  { clock }: Payments,
  request: OfWebhook,
): Promise<Result<WebhookEndpoint>> {
  const enabled = await changeWebhook(tx, request, () => ({ disabledMs: null }))
  if (enabled.ok) await retryUndelivered(tx, enabled.value.id, clock.nowMs())
  return enabled
}

export async function deleteWebhook(tx: Tx, { clock }: Payments, request: OfWebhook): Promise<Result<void>> {
  const endpoint = await lockOwnWebhook(tx, request.app, request.webhookId)
  if (!endpoint.ok) return endpoint
  await deleteWebhookEndpoint(tx, endpoint.value.id, clock.nowMs())
  return done
}

/** Makes an event of the merchant's log due at the endpoint, even if it was delivered before. */
export async function redeliver(
  tx: Tx,
  { clock }: Payments,
  { eventId, ...request }: OfWebhook & { readonly eventId: string },
): Promise<Result<WebhookEvent>> {
  const endpoint = await ownWebhook(tx, request.app, request.webhookId)
  if (!endpoint.ok) return endpoint
  const event = await ownEvent(tx, request.app, eventId)
  if (!event.ok) return event
  if (event.value.merchantId !== endpoint.value.merchantId) return reject('not_found')
  await deliverAgain(tx, endpoint.value.id, event.value.id, clock.nowMs())
  return accept(event.value)
}

export interface NewWebhookInput {
  readonly url: string
  /** The types of the events to deliver; empty for all. */
  readonly events: readonly EventType[]
}

/** The changes of a webhook. A field that is null is not changed. */
export interface WebhookUpdate {
  readonly url: string | null
  readonly events: readonly EventType[] | null
  readonly disabled: boolean | null
}

/** The default policy for webhooks: only https, and only public addresses. */
const strictPolicy = new AddressPolicy([], false)

export const eventType: Reader<EventType> = enumeration(eventTypes)

const typeList = described(
  list(eventType, eventTypes.length),
  'The types of events to deliver. Empty means all. In a form, they are separated by commas',
)

/** Reads a list of event types. In a form, it can be one text with commas between the types. */
const types: Reader<readonly EventType[]> = reader(typeList.schema, (value, place) => {
  const isText = place.encoding === 'form' && typeof value === 'string'
  return typeList(isText ? value.split(',') : value, place)
})

const urlText = textField(maxUrlCharacters)
const urlSchema = { ...webAddress.schema, description: 'An https URL with a public address' }

function webhookUrl(policy: AddressPolicy): Reader<string> {
  return reader(urlSchema, (value, place) => {
    const found = urlText(value, place)
    if (found === invalidValue) return invalidValue
    const checked = checkWebhookUrl(found, policy)
    return 'url' in checked ? found : rejectValue(place, 'format', checked.problem)
  })
}

const webhookBody = (policy: AddressPolicy) =>
  record({ url: requiredField(webhookUrl(policy)), events: withDefault(types, []) })

const updateBody = (policy: AddressPolicy) =>
  record({
    url: optionalField(webhookUrl(policy)),
    events: optionalField(types),
    disabled: optionalField(booleanFlag),
  })

export const webhookSchemas = {
  WebhookInput: webhookBody(strictPolicy).schema,
  WebhookUpdate: updateBody(strictPolicy).schema,
}

export function parseWebhook(
  body: unknown,
  encoding: Encoding,
  policy: AddressPolicy,
): Result<NewWebhookInput> {
  return parseInput(webhookBody(policy), body, encoding)
}

export function parseWebhookUpdate(
  body: unknown,
  encoding: Encoding,
  policy: AddressPolicy,
): Result<WebhookUpdate> {
  return parseInput(updateBody(policy), body, encoding)
}
