import { onlyRow, type Tx } from '../storage.ts'

/**
 * The outboxes that commits fill: mail, events for webhooks, instructions for the processor, and
 * authorisations whose outcome is not stored.
 */
export const outboxes = ['mail', 'webhooks', 'processor', 'authorisations'] as const
export type Outbox = (typeof outboxes)[number]

export interface OutboxState {
  readonly waiting: bigint
  /** When the first that may be taken is due; null when nothing waits. */
  readonly nextDueMs: number | null
}

/**
 * What waits, and when the next is due. Of one subject only the first can be taken, and nothing of a webhook
 * that is disabled; the others may well have been due long ago.
 */
const queries: Readonly<Record<Outbox, string>> = {
  mail: 'SELECT count(*) AS waiting, min(due) AS due FROM mails WHERE sent IS NULL AND given_up IS NULL',
  webhooks: `SELECT coalesce(max(waiting), 0) AS waiting, min(due) AS due FROM (
      SELECT DISTINCT ON (d.endpoint_id, d.subject_id) d.due, count(*) OVER () AS waiting
      FROM webhook_deliveries d JOIN webhook_endpoints e ON e.id = d.endpoint_id AND e.disabled IS NULL
      WHERE d.delivered IS NULL AND d.given_up IS NULL
      ORDER BY d.endpoint_id, d.subject_id, d.position
    ) AS first`,
  processor: `SELECT coalesce(max(waiting), 0) AS waiting, min(due) AS due FROM (
      SELECT DISTINCT ON (transaction_id) due, count(*) OVER () AS waiting
      FROM processor_instructions ORDER BY transaction_id, number
    ) AS first`,
  authorisations: 'SELECT count(*) AS waiting, min(due) AS due FROM authorisation_attempts',
}

export async function readOutbox(tx: Tx, outbox: Outbox): Promise<OutboxState> {
  const { waiting, due } = onlyRow(await tx.query<{ waiting: bigint; due: Date | null }>(queries[outbox]))
  return { waiting, nextDueMs: due?.getTime() ?? null }
}
