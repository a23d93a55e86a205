import { byIndex, type Tx, toDate } from './storage.ts'

/**
 * Statements that delete at most `$2` rows that are no longer needed since `$1` or before, the oldest first.
 * The records of the books are never deleted.
 */
const statements = {
  /** Deliveries that succeeded or were given up. */
  'webhook deliveries': `DELETE FROM webhook_deliveries WHERE (endpoint_id, event_id) IN (
      SELECT endpoint_id, event_id FROM webhook_deliveries WHERE coalesce(delivered, given_up) <= $1
      ORDER BY coalesce(delivered, given_up) LIMIT $2 FOR UPDATE SKIP LOCKED
    ) RETURNING 1 AS removed`,
  /** Deliveries that wait for an endpoint that was disabled or deleted. */
  'webhook deliveries to disabled endpoints': `DELETE FROM webhook_deliveries WHERE (endpoint_id, event_id) IN (
      SELECT d.endpoint_id, d.event_id FROM webhook_endpoints e CROSS JOIN LATERAL (
        SELECT endpoint_id, event_id FROM webhook_deliveries
        WHERE endpoint_id = e.id AND delivered IS NULL AND given_up IS NULL
        ORDER BY endpoint_id, subject_id, position LIMIT $2 FOR UPDATE SKIP LOCKED
      ) AS d
      WHERE e.disabled <= $1 LIMIT $2
    ) RETURNING 1 AS removed`,
  /**
   * Deleted endpoints without deliveries. The subquery finds the first delivery with this or a higher
   * endpoint id; if it has another endpoint id, this one has no delivery. In this form, the planner uses an
   * index even without statistics.
   */
  'deleted webhook endpoints': `DELETE FROM webhook_endpoints WHERE id IN (
      SELECT id FROM webhook_endpoints e WHERE e.disabled <= $1 AND e.deleted <= $1
        AND e.id IS DISTINCT FROM (
          SELECT endpoint_id FROM webhook_deliveries WHERE endpoint_id >= e.id ORDER BY endpoint_id LIMIT 1
        )
      LIMIT $2 FOR UPDATE SKIP LOCKED
    ) RETURNING 1 AS removed`,
  /** Mails that were sent or given up. */
  mails: `DELETE FROM mails WHERE id IN (
      SELECT id FROM mails WHERE coalesce(sent, given_up) <= $1
      ORDER BY coalesce(sent, given_up) LIMIT $2 FOR UPDATE SKIP LOCKED
    ) RETURNING 1 AS removed`,
  /** Events that the service has acknowledged. */
  'events of the test processor': `DELETE FROM test_processor_events WHERE id IN (
      SELECT id FROM test_processor_events WHERE told AND due <= $1
      ORDER BY due LIMIT $2 FOR UPDATE SKIP LOCKED
    ) RETURNING 1 AS removed`,
  'answers of the test processor': `DELETE FROM test_processor_answers WHERE operation_id IN (
      SELECT operation_id FROM test_processor_answers WHERE created <= $1
      ORDER BY created LIMIT $2 FOR UPDATE SKIP LOCKED
    ) RETURNING 1 AS removed`,
  /** Counts whose window of 24 hours has ended. */
  'invitation counts': `DELETE FROM invitation_counts WHERE subject IN (
      SELECT subject FROM invitation_counts WHERE since <= $1::timestamptz - interval '1 day'
      ORDER BY since LIMIT $2 FOR UPDATE SKIP LOCKED
    ) RETURNING 1 AS removed`,
  /** Selects by id, which begins with the time, so that no further index is needed. */
  events: `DELETE FROM webhook_events WHERE id IN (
      SELECT id FROM webhook_events e WHERE id < ${firstIdAfter('$1')} AND created <= $1
        AND NOT EXISTS (SELECT FROM webhook_deliveries d WHERE d.event_id = e.id ${byIndex})
      ORDER BY id LIMIT $2 FOR UPDATE SKIP LOCKED
    ) RETURNING 1 AS removed`,
} as const

/** Returns the SQL of an id that is above all UUIDs of version 7 made until `time`. */
function firstIdAfter(time: string): string {
  const ms = `lpad(to_hex(ceil(extract(epoch FROM ${time}::timestamptz) * 1000)::bigint + 1), 12, '0')`
  return `rpad(${ms}, 32, '0')::uuid`
}

type Prunable = keyof typeof statements
export const prunables = Object.keys(statements) as readonly Prunable[]

/** Only one process prunes at a time. Other processes skip pruning, which is not urgent. */
const lock = "SELECT pg_try_advisory_xact_lock(hashtextextended('pruning', 3)) AS locked"

interface PruneOptions {
  /** Rows that became unnecessary after this time are kept. */
  readonly untilMs: number
  readonly limit: number
}

/** @returns fewer than `limit` if there are no more rows, and 0 while another process prunes */
export async function prune(tx: Tx, what: Prunable, { untilMs, limit }: PruneOptions): Promise<number> {
  const [row] = await tx.query<{ locked: boolean }>(lock)
  if (row?.locked !== true) return 0
  return (await tx.query(statements[what], [toDate(untilMs), limit])).length
}
