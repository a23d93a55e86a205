import type { JsonObject } from '../domain/json.ts'
import type { Tx } from '../storage/storage.ts'
import { insertWebhookEvent } from '../storage/webhooks.ts'
import { nextId, type Payments } from './operation.ts'

/** What merchants are told of, and can read again in the log of events. */
export const eventTypes = [
  'merchant.created',
  'merchant.updated',
  'merchant.closed',
  'transaction.created',
  'transaction.captured',
  'transaction.refunded',
  'transaction.voided',
  'transaction.expired',
  'card.saved',
  'dispute.raised',
  'dispute.won',
  'dispute.lost',
  'fraud.reported',
  'payout.created',
] as const
export type EventType = (typeof eventTypes)[number]

export interface Announcement {
  readonly type: EventType
  readonly merchantId: string
  /** What it happened to: events of one subject reach an endpoint in their order. */
  readonly subjectId: string
  /** The record as the API presents it, under its name: `{transaction: {…}}`. */
  readonly data: JsonObject
}

/**
 * Adds to the merchant's log of events, in the transaction of what happened: it is told if and only if it did.
 * Holds the merchant's lists, and therefore comes last.
 */
export async function announce(
  tx: Tx,
  payments: Pick<Payments, 'clock' | 'randomBytes'>,
  { type, merchantId, subjectId, data }: Announcement,
): Promise<void> {
  const id = nextId(payments)
  const createdMs = payments.clock.nowMs()
  const body = JSON.stringify({ id, type, created: new Date(createdMs).toISOString(), merchantId, data })
  await insertWebhookEvent(tx, { id, merchantId, createdMs, type, subjectId, body })
}
