import { newWebhookSecret } from '@tollway/chassis/webhooks/webhook-secret.ts'
import type { App } from '../../domain/merchant/app.ts'
import { isRefused, refuse } from '../../domain/refusals.ts'
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
import { type Done, done, nextId, type Outcome, type Payments } from '../operation.ts'
import { lockOwnWebhook, ownEvent, ownOpenMerchant, ownWebhook } from './access.ts'
import type { NewWebhookInput, WebhookUpdate } from './webhook-input.ts'

/** The most webhooks of one merchant; each event is sent to all of them. */
export const maxWebhooks = 20
/** The new one and the one before it, which sign both until the next rotation. */
const maxSecrets = 2

interface OfWebhook {
  readonly app: App
  readonly webhookId: string
}

/** An endpoint with a secret of its own, which its first element is. */
export async function createWebhook(
  tx: Tx,
  payments: Payments,
  {
    app,
    merchantId,
    input,
  }: { readonly app: App; readonly merchantId: string; readonly input: NewWebhookInput },
): Outcome<WebhookEndpoint> {
  const merchant = await ownOpenMerchant(tx, app, merchantId)
  if (isRefused(merchant)) return merchant
  // Requests at the same time count one after another.
  await lockMerchant(tx, merchantId)
  const known = await listWebhookEndpoints(tx, merchantId, { limit: maxWebhooks })
  if ('items' in known && known.items.length >= maxWebhooks) {
    return refuse('conflict', `The merchant has ${maxWebhooks} webhooks already, which is the maximum.`)
  }
  const endpoint: WebhookEndpoint = {
    id: nextId(payments),
    merchantId,
    createdMs: payments.clock.nowMs(),
    ...input,
    secrets: [newWebhookSecret(payments.randomBytes)],
    disabledMs: null,
  }
  await insertWebhookEndpoint(tx, endpoint)
  return endpoint
}

export interface WebhookState {
  readonly endpoint: WebhookEndpoint
  readonly waiting: Waiting
}

/** Reads a webhook, with what waits to be delivered to it. */
export async function readWebhook(tx: Tx, { app, webhookId }: OfWebhook): Outcome<WebhookState> {
  const endpoint = await ownWebhook(tx, app, webhookId)
  return isRefused(endpoint) ? endpoint : { endpoint, waiting: await waitingAt(tx, webhookId) }
}

/** What waited while it was disabled is delivered once it is enabled. */
export async function updateWebhook(
  tx: Tx,
  { clock }: Payments,
  { update, ...request }: OfWebhook & { readonly update: WebhookUpdate },
): Outcome<WebhookEndpoint> {
  const endpoint = await lockOwnWebhook(tx, request.app, request.webhookId)
  if (isRefused(endpoint)) return endpoint
  const { url, events, disabled } = update
  const disabledMs = disabled === false ? null : (endpoint.disabledMs ?? (disabled ? clock.nowMs() : null))
  const updated = { ...endpoint, url: url ?? endpoint.url, events: events ?? endpoint.events, disabledMs }
  await updateWebhookEndpoint(tx, updated)
  return updated
}

export async function deleteWebhook(tx: Tx, { clock }: Payments, request: OfWebhook): Outcome<Done> {
  const endpoint = await lockOwnWebhook(tx, request.app, request.webhookId)
  if (isRefused(endpoint)) return endpoint
  await deleteWebhookEndpoint(tx, endpoint.id, clock.nowMs())
  return done
}

/** The new secret comes first; the one before it signs beside it, so that the receiver can change over. */
export async function rotateSecret(
  tx: Tx,
  { randomBytes }: Payments,
  request: OfWebhook,
): Outcome<WebhookEndpoint> {
  const endpoint = await lockOwnWebhook(tx, request.app, request.webhookId)
  if (isRefused(endpoint)) return endpoint
  const secrets = [newWebhookSecret(randomBytes), ...endpoint.secrets].slice(0, maxSecrets)
  const updated = { ...endpoint, secrets }
  await updateWebhookEndpoint(tx, updated)
  return updated
}

/** All that was not delivered is due now, and the endpoint is enabled if it was not. */
export async function retryWebhook(
  tx: Tx,
  { clock }: Payments,
  request: OfWebhook,
): Outcome<WebhookEndpoint> {
  const endpoint = await lockOwnWebhook(tx, request.app, request.webhookId)
  if (isRefused(endpoint)) return endpoint
  const updated = { ...endpoint, disabledMs: null }
  await updateWebhookEndpoint(tx, updated)
  await retryUndelivered(tx, endpoint.id, clock.nowMs())
  return updated
}

/** One event of the merchant's log is sent to the endpoint, be it for another time. */
export async function redeliver(
  tx: Tx,
  { clock }: Payments,
  { eventId, ...request }: OfWebhook & { readonly eventId: string },
): Outcome<WebhookEvent> {
  const endpoint = await ownWebhook(tx, request.app, request.webhookId)
  if (isRefused(endpoint)) return endpoint
  const event = await ownEvent(tx, request.app, eventId)
  if (isRefused(event)) return event
  if (event.merchantId !== endpoint.merchantId) return refuse('not_found')
  await deliverAgain(tx, endpoint.id, event.id, clock.nowMs())
  return event
}
