import { onlyRow, type Tx } from '../storage.ts'

/**
 * The queues of work for systems outside the database: mails, events for webhooks, instructions for the
 * processor, and authorisations whose outcome is not stored. Entries are added in the database transaction of
 * their cause.
 */
export const outboxes = ['mail', 'webhooks', 'processor', 'authorisations'] as const
export type OutboxName = (typeof outboxes)[number]

interface OutboxState {
  readonly waiting: bigint
  /** When the next entry that can be claimed is due; null if there is none. */
  readonly nextDueMs: number | null
}

/**
 * Each query returns the number of waiting entries, and when the next entry that can be claimed is due. Of
 * each subject, such as a transaction, only the first entry can be claimed. Entries of disabled webhooks are
 * not counted.
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
