import { onlyRow, type Tx } from '../storage.ts'

/**
 * The outboxes: mail, events for webhooks, instructions for the processor, and authorisations whose outcome
 * is not stored. Commits enqueue their entries.
 */
export const outboxes = ['mail', 'webhooks', 'processor', 'authorisations'] as const
export type OutboxName = (typeof outboxes)[number]

interface OutboxState {
  readonly waiting: bigint
  /** When the first entry that can be claimed is due; null when none waits. */
  readonly nextDueMs: number | null
}

/**
 * The number of waiting entries, and when the next is due. Only the first entry of a subject can be claimed,
 * and none of a disabled webhook. Later entries may be overdue; they do not count for `due`.
 */
const queries: Readonly<Record<OutboxName, string>> = {
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

export async function readOutbox(tx: Tx, outbox: OutboxName): Promise<OutboxState> {
  const { waiting, due } = onlyRow(await tx.query<{ waiting: bigint; due: Date | null }>(queries[outbox]))
  return { waiting, nextDueMs: due?.getTime() ?? null }
}
