import type { JsonObject } from '@tollway/chassis/json.ts'
import { id } from '../../domain/input/fields.ts'
import { described, optionalField, record } from '../../domain/input/record.ts'
import { isoDate } from '../../domain/present.ts'
import { accept, mapResult } from '../../domain/rejections.ts'
import { ownEvent } from '../../operations/accounts/access.ts'
import {
  createWebhook,
  deleteWebhook,
  eventType,
  type NewWebhookInput,
  parseWebhook,
  parseWebhookUpdate,
  readWebhook,
  redeliver,
  retryWebhook,
  rotateSecret,
  updateWebhook,
  type WebhookUpdate,
} from '../../operations/accounts/webhooks.ts'
import { listOwnEvents, listOwnWebhooks } from '../../operations/lists.ts'
import type { WebhookEndpoint, WebhookEvent } from '../../storage/delivery/webhooks.ts'
import { jsonAnswer, noContent } from '../answer.ts'
import type { AppCall, AppEndpoint, PaymentsEndpoint } from '../endpoint.ts'
import { listEndpoint, readEndpoint } from '../get-endpoints.ts'
import { eventExample, webhookExample, webhookSecretExample } from '../openapi/examples.ts'
import { answerWith, ref } from '../openapi/schemas.ts'

const tag = 'Webhooks and events'
const ofWebhook = ({ app, param }: AppCall) => ({ app, webhookId: param('webhookId') })
const webhookItem = { schema: ref('Webhook'), example: webhookExample }
const eventItem = { schema: ref('Event'), example: eventExample }
const webhook = answerWith('webhook', webhookItem)
const withSecret = answerWith('webhook', {
  schema: ref('NewWebhook'),
  example: { ...webhookExample, secret: webhookSecretExample },
})

function presentWebhook({ id: webhookId, merchantId, createdMs, url, events, disabledMs }: WebhookEndpoint) {
  return {
    id: webhookId,
    merchantId,
    created: isoDate(createdMs),
    url,
    events,
    disabled: disabledMs === null ? null : isoDate(disabledMs),
  } satisfies JsonObject
}

/** Returns a webhook with the newest secret. Only the answers to a creation and a rotation contain it. */
function presentWithSecret(endpoint: WebhookEndpoint): JsonObject {
  return { ...presentWebhook(endpoint), secret: endpoint.secrets[0] ?? '' }
}

function presentEvent({ body }: WebhookEvent): JsonObject {
  return JSON.parse(body) as JsonObject
}

const create: AppEndpoint<NewWebhookInput> = {
  kind: 'app',
  method: 'POST',
  path: '/merchants/{merchantId}/webhooks',
  document: {
    operationId: 'createWebhook',
    tag,
    summary: 'Create a webhook',
    description:
      'Delivers later events, with signatures as the Standard Webhooks specification defines. The answer has the ' +
      'secret, which is not shown again. A response from 200 to 299 acknowledges an event; 410 disables the webhook.',
    body: { schema: ref('WebhookInput'), example: { url: webhookExample.url }, required: true },
    answers: { 201: withSecret },
  },
  parse: ({ body, encoding, payments }) => parseWebhook(body, encoding, payments.webhookPolicy),
  async act(tx, { payments, app, param, input }) {
    return mapResult(
      await createWebhook(tx, payments, { app, merchantId: param('merchantId'), input }),
      made => jsonAnswer(201, { webhook: presentWithSecret(made) }),
    )
  },
}

const webhooks = listEndpoint({
  path: '/merchants/{merchantId}/webhooks',
  operationId: 'listWebhooks',
  tag,
  summary: 'List the webhooks of a merchant',
  filter: record({}),
  item: webhookItem,
  list: listOwnWebhooks,
  present: presentWebhook,
})

const read: AppEndpoint = {
  kind: 'app',
  method: 'GET',
  path: '/webhooks/{webhookId}',
  document: {
    operationId: 'getWebhook',
    tag,
    summary: 'Read a webhook and its pending deliveries',
    answers: {
      200: answerWith('webhook', {
        schema: ref('Webhook'),
        example: { ...webhookExample, waiting: { events: 2, error: 'the answer was 503' } },
      }),
    },
  },
  async act(tx, call) {
    const state = await readWebhook(tx, ofWebhook(call))
    if (!state.ok) return state
    const waiting = { events: Number(state.value.waiting.count), error: state.value.waiting.lastError }
    return accept(jsonAnswer(200, { webhook: { ...presentWebhook(state.value.endpoint), waiting } }))
  },
}

const update: AppEndpoint<WebhookUpdate> = {
  kind: 'app',
  method: 'PUT',
  path: '/webhooks/{webhookId}',
  document: {
    operationId: 'updateWebhook',
    tag,
    summary: 'Change a webhook',
    description:
      'Fields that are left out do not change. Events that wait when the webhook is disabled are delivered when ' +
      'it is enabled again; later events are in the log only.',
    body: { schema: ref('WebhookUpdate'), example: { disabled: false }, required: true },
    answers: { 200: webhook, 204: null },
  },
  parse: ({ body, encoding, payments }) => parseWebhookUpdate(body, encoding, payments.webhookPolicy),
  async act(tx, call) {
    const request = { ...ofWebhook(call), update: call.input }
    return mapResult(await updateWebhook(tx, call.payments, request), updated =>
      call.wantsChanged ? jsonAnswer(200, { webhook: presentWebhook(updated) }) : noContent,
    )
  },
}

const remove: AppEndpoint = {
  kind: 'app',
  method: 'DELETE',
  path: '/webhooks/{webhookId}',
  document: { operationId: 'deleteWebhook', tag, summary: 'Delete a webhook', answers: { 204: null } },
  async act(tx, call) {
    return mapResult(await deleteWebhook(tx, call.payments, ofWebhook(call)), () => noContent)
  },
}

const rotate: AppEndpoint = {
  kind: 'app',
  method: 'POST',
  path: '/webhooks/{webhookId}/secrets',
  document: {
    operationId: 'rotateWebhookSecret',
    tag,
    summary: 'Rotate the secret',
    description: 'Events also have a signature by the previous secret until the next rotation.',
    answers: { 201: withSecret },
  },
  async act(tx, call) {
    return mapResult(await rotateSecret(tx, call.payments, ofWebhook(call)), rotated =>
      jsonAnswer(201, { webhook: presentWithSecret(rotated) }),
    )
  },
}

const retry: AppEndpoint = {
  kind: 'app',
  method: 'POST',
  path: '/webhooks/{webhookId}/retries',
  document: {
    operationId: 'retryWebhook',
    tag,
    summary: 'Deliver all undelivered events',
    description:
      'Includes deliveries that were given up, while their results are kept: 30 days by default. Enables the webhook.',
    answers: { 201: webhook },
  },
  async act(tx, call) {
    return mapResult(await retryWebhook(tx, call.payments, ofWebhook(call)), retried =>
      jsonAnswer(201, { webhook: presentWebhook(retried) }),
    )
  },
}

const deliverOne: AppEndpoint = {
  kind: 'app',
  method: 'POST',
  path: '/webhooks/{webhookId}/events/{eventId}/deliveries',
  document: {
    operationId: 'redeliverEvent',
    tag,
    summary: 'Deliver one event, also if it was delivered before',
    description: 'Any event of the log can be delivered.',
    answers: { 201: answerWith('event', eventItem) },
  },
  async act(tx, call) {
    const eventId = call.param('eventId')
    return mapResult(await redeliver(tx, call.payments, { ...ofWebhook(call), eventId }), event =>
      jsonAnswer(201, { event: presentEvent(event) }),
    )
  },
}

const events = listEndpoint({
  path: '/merchants/{merchantId}/events',
  operationId: 'listEvents',
  tag,
  summary: 'List the events',
  filter: record({
    type: optionalField(described(eventType, 'Only events of this type.')),
    subjectId: optionalField(described(id, 'Only events of this transaction or other record.')),
  }),
  item: eventItem,
  list: listOwnEvents,
  present: presentEvent,
})

const readEvent = readEndpoint({
  path: '/events/{eventId}',
  operationId: 'getEvent',
  tag,
  summary: 'Read an event',
  field: 'event',
  item: eventItem,
  find: ownEvent,
  present: presentEvent,
})

export const webhookEndpoints: readonly PaymentsEndpoint[] = [
  create,
  webhooks,
  read,
  update,
  remove,
  rotate,
  retry,
  deliverOne,
  events,
  readEvent,
]
