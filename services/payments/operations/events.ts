import type { JsonObject } from '@tollway/chassis/json.ts'
import { insertWebhookEvent } from '../storage/delivery/webhooks.ts'
import type { Tx } from '../storage/storage.ts'
import { generateId, type Payments } from './operation.ts'

/** The event types, each with its meaning and the fields of `data`, for the documentation. */
export const eventMeanings = {
  'merchant.created': { means: 'The merchant is created.', data: ['merchant'] },
  'merchant.updated': { means: 'The name, e-mail address or descriptor changes.', data: ['merchant'] },
  'merchant.closed': { means: 'The merchant is closed and accepts no new payment.', data: ['merchant'] },
  'transaction.created': {
    means: 'A payment is authorised, or declined: see `successful` and `error`.',
    data: ['transaction'],
  },
  'transaction.captured': { means: 'An amount is captured.', data: ['transaction', 'change'] },
  'transaction.refunded': { means: 'An amount is refunded.', data: ['transaction', 'change'] },
  'transaction.voided': { means: 'An amount is released.', data: ['transaction', 'change'] },
  'transaction.expired': {
    means: 'The authorisation expires, and its pending amount is released.',
    data: ['transaction', 'change'],
  },
  'card.saved': { means: 'A card is saved from a transaction.', data: ['card'] },
  'dispute.raised': {
    means: 'A payer disputes a payment. The amount leaves the balance.',
    data: ['dispute'],
  },
  'dispute.won': { means: 'The merchant wins. The amount returns to the balance.', data: ['dispute'] },
  'dispute.lost': { means: 'The merchant loses. The balance does not change.', data: ['dispute'] },
  'fraud.reported': { means: 'The processor reports a payment as fraud.', data: ['fraud'] },
  'payout.created': { means: 'The balance is paid out.', data: ['line'] },
} as const satisfies Readonly<Record<string, { readonly means: string; readonly data: readonly string[] }>>

export type EventType = keyof typeof eventMeanings

export const eventTypes = Object.keys(eventMeanings) as readonly EventType[]

interface EmittedEvent {
  readonly type: EventType
  readonly merchantId: string
  /** The id of the record that the event is about. An endpoint gets the events of one subject in order. */
  readonly subjectId: string
  /** The record as the API presents it, in a field with the name of its kind: `{transaction: {…}}`. */
  readonly data: JsonObject
}

/**
 * Adds an event to the merchant's log, in the transaction of the change, so that it is published only if the
 * change commits. Call it last, because it locks the merchant's lists.
 */
export function emitEvent(
  tx: Tx,
  payments: Pick<Payments, 'clock' | 'randomBytes'>,
  { type, merchantId, subjectId, data }: EmittedEvent,
): void {
  const id = generateId(payments)
  const createdMs = payments.clock.nowMs()
  const body = JSON.stringify({ id, type, created: new Date(createdMs).toISOString(), merchantId, data })
  insertWebhookEvent(tx, { id, merchantId, createdMs, type, subjectId, body })
}
