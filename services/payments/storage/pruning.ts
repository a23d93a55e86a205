import { byIndex, type Tx, toDate } from './storage.ts'

/**
 * Statements that delete the oldest `$2` rows that ended at `$1` or before, because they are useless some
 * time after their end. The records of the books are never removed.
 */
const statements = {
  /** Delivered, or given up. */
  'webhook deliveries': `DELETE FROM webhook_deliveries WHERE (endpoint_id, event_id) IN (
      SELECT endpoint_id, event_id FROM webhook_deliveries WHERE coalesce(delivered, given_up) <= $1
      ORDER BY coalesce(delivered, given_up) LIMIT $2 FOR UPDATE SKIP LOCKED
    ) RETURNING 1 AS removed`,
  /** Deliveries that wait for an endpoint disabled or deleted at `$1` or before. */
  'webhook deliveries to disabled endpoints': `DELETE FROM webhook_deliveries WHERE (endpoint_id, event_id) IN (
      SELECT d.endpoint_id, d.event_id FROM webhook_endpoints e CROSS JOIN LATERAL (
        SELECT endpoint_id, event_id FROM webhook_deliveries
        WHERE endpoint_id = e.id AND delivered IS NULL AND given_up IS NULL
        ORDER BY endpoint_id, subject_id, position LIMIT $2 FOR UPDATE SKIP LOCKED
      ) AS d
      WHERE e.disabled <= $1 LIMIT $2
    ) RETURNING 1 AS removed`,
  /**
   * Endpoints without remaining deliveries: the next endpoint that has some is another one. In this form, an
   * index answers it with any statistics.
   */
  'deleted webhook endpoints': `DELETE FROM webhook_endpoints WHERE id IN (
      SELECT id FROM webhook_endpoints e WHERE e.disabled <= $1 AND e.deleted <= $1
        AND e.id IS DISTINCT FROM (
          SELECT endpoint_id FROM webhook_deliveries WHERE endpoint_id >= e.id ORDER BY endpoint_id LIMIT 1
        )
      LIMIT $2 FOR UPDATE SKIP LOCKED
    ) RETURNING 1 AS removed`,
  /** Mails that were sent, or failed for good. */
  mails: `DELETE FROM mails WHERE id IN (
      SELECT id FROM mails WHERE coalesce(sent, given_up) <= $1
      ORDER BY coalesce(sent, given_up) LIMIT $2 FOR UPDATE SKIP LOCKED
    ) RETURNING 1 AS removed`,
  /** The processor is not called again about events of this age. */
  'events of the test processor': `DELETE FROM test_processor_events WHERE id IN (
      SELECT id FROM test_processor_events WHERE told AND due <= $1
      ORDER BY due LIMIT $2 FOR UPDATE SKIP LOCKED
    ) RETURNING 1 AS removed`,
  'answers of the test processor': `DELETE FROM test_processor_answers WHERE operation_id IN (
      SELECT operation_id FROM test_processor_answers WHERE created <= $1
      ORDER BY created LIMIT $2 FOR UPDATE SKIP LOCKED
    ) RETURNING 1 AS removed`,
  /** Counts whose window is over. */
  'invitation counts': `DELETE FROM invitation_counts WHERE subject IN (
      SELECT subject FROM invitation_counts WHERE since <= $1::timestamptz - interval '1 day'
      ORDER BY since LIMIT $2 FOR UPDATE SKIP LOCKED
    ) RETURNING 1 AS removed`,
  /**
   * Events, by id: an id begins with the time, so that no index is needed. The deliveries of an event are
   * removed first.
   */
  events: `DELETE FROM webhook_events WHERE id IN (
      SELECT id FROM webhook_events e WHERE id < ${firstIdAfter('$1')} AND created <= $1
        AND NOT EXISTS (SELECT FROM webhook_deliveries d WHERE d.event_id = e.id ${byIndex})
      ORDER BY id LIMIT $2 FOR UPDATE SKIP LOCKED
    ) RETURNING 1 AS removed`,
} as const

/** Returns an id below all UUIDs of version 7 made after that time. */
function firstIdAfter(time: string): string {
  const ms = `lpad(to_hex(ceil(extract(epoch FROM ${time}::timestamptz) * 1000)::bigint + 1), 12, '0')`
  return `rpad(${ms}, 32, '0')::uuid`
}

export type Prunable = keyof typeof statements
export const prunables = Object.keys(statements) as readonly Prunable[]

/** Only one process at a time prunes, since pruning is not urgent. */
const lock = "SELECT pg_try_advisory_xact_lock(hashtextextended('pruning', 3)) AS locked"

interface PruneOptions {
  /** Rows that ended later stay. */
  readonly untilMs: number
  readonly limit: number
}

/**
 * @returns the number of removed rows; fewer than `limit` when no more are due, or 0 while another process
 *   prunes
 */
export async function prune(tx: Tx, what: Prunable, { untilMs, limit }: PruneOptions): Promise<number> {
  const [row] = await tx.query<{ locked: boolean }>(lock)
  if (row?.locked !== true) return 0
  return (await tx.query(statements[what], [toDate(untilMs), limit])).length
}
