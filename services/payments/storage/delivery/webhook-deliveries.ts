import { byIndex, type Tx, toDate } from '../storage.ts'

export interface WebhookDelivery {
  readonly endpointId: string
  readonly eventId: string
  readonly url: string
  /** The secrets that sign the body, the newest first. */
  readonly secrets: readonly string[]
  readonly body: string
  /** The number of attempts, including the current one. */
  readonly attempts: number
}

interface DeliveryRow {
  readonly endpoint_id: string
  readonly event_id: string
  readonly url: string
  readonly secrets: readonly string[]
  readonly body: string
  readonly attempts: number
}

/**
 * Claims due deliveries in three steps. `due` reads at most 512, so that a long queue is not sorted. `fair`
 * numbers them for each endpoint, so that no endpoint gets more than `perEndpoint`. `chosen` locks those that
 * no other process has claimed meanwhile.
 */
const claimDue = `WITH due AS (
    SELECT c.endpoint_id, c.event_id, c.due
    FROM webhook_deliveries c JOIN webhook_endpoints e ON e.id = c.endpoint_id AND e.disabled IS NULL
    WHERE c.due <= $1 AND c.delivered IS NULL AND c.given_up IS NULL AND c.endpoint_id <> ALL ($5::uuid[])
      AND NOT EXISTS (
        SELECT FROM webhook_deliveries earlier
        WHERE earlier.endpoint_id = c.endpoint_id AND earlier.subject_id = c.subject_id
          AND earlier.position < c.position AND earlier.delivered IS NULL AND earlier.given_up IS NULL
        ORDER BY earlier.endpoint_id, earlier.subject_id, earlier.position ${byIndex}
      )
    ORDER BY c.due LIMIT 512
  ), fair AS (
    SELECT endpoint_id, event_id, due,
      row_number() OVER (PARTITION BY endpoint_id ORDER BY due) AS place FROM due
  ), chosen AS (
    SELECT d.endpoint_id, d.event_id FROM webhook_deliveries d
      JOIN fair ON fair.endpoint_id = d.endpoint_id AND fair.event_id = d.event_id AND fair.place <= $4
    WHERE d.due <= $1 AND d.delivered IS NULL AND d.given_up IS NULL
    ORDER BY d.due LIMIT $3 FOR UPDATE OF d SKIP LOCKED
  )
  UPDATE webhook_deliveries d SET attempts = d.attempts + 1, due = $2
  FROM chosen, webhook_endpoints endpoint, webhook_events event
  WHERE d.endpoint_id = chosen.endpoint_id AND d.event_id = chosen.event_id
    AND endpoint.id = d.endpoint_id AND event.id = d.event_id
  RETURNING d.endpoint_id, d.event_id, endpoint.url, endpoint.secrets, event.body, d.attempts`

interface ClaimOptions {
  readonly nowMs: number
  /** When a claimed delivery is due again if no outcome is recorded, for example after a crash. */
  readonly leaseUntilMs: number
  readonly limit: number
  /** The maximum number of claimed deliveries for one endpoint. */
  readonly perEndpoint: number
  /** The ids of endpoints whose deliveries are not claimed. */
  readonly without: readonly string[]
}

/**
 * Claims due deliveries: no other process gets them before `leaseUntilMs`. An event is claimed only after the
 * endpoint's earlier events of the same subject were delivered or given up.
 */
export async function claimDueDeliveries(
  tx: Tx,
  { nowMs, leaseUntilMs, limit, perEndpoint, without }: ClaimOptions,
): Promise<readonly WebhookDelivery[]> {
  const params = [toDate(nowMs), toDate(leaseUntilMs), limit, perEndpoint, without]
  const rows = await tx.query<DeliveryRow>(claimDue, params)
  return rows.map(({ endpoint_id, event_id, ...rest }) => ({
    endpointId: endpoint_id,
    eventId: event_id,
    ...rest,
  }))
}

/** Identifies the attempt that ended. Its outcome is not recorded if a later attempt has begun meanwhile. */
type Try = Pick<WebhookDelivery, 'endpointId' | 'eventId' | 'attempts'>

const ofTry = 'WHERE endpoint_id = $1 AND event_id = $2 AND attempts = $3'

export async function markDelivered(tx: Tx, tried: Try, atMs: number): Promise<void> {
  await tx.query(`UPDATE webhook_deliveries SET delivered = $4, last_error = NULL ${ofTry}`, [
    tried.endpointId,
    tried.eventId,
    tried.attempts,
    toDate(atMs),
  ])
}

/** @param dueMs the time of the next attempt */
export async function postponeDelivery(
  tx: Tx,
  tried: Try,
  { error, dueMs }: { readonly error: string; readonly dueMs: number },
): Promise<void> {
  await tx.query(`UPDATE webhook_deliveries SET last_error = $4, due = $5 ${ofTry}`, [
    tried.endpointId,
    tried.eventId,
    tried.attempts,
    error,
    toDate(dueMs),
  ])
}

/** The event stays in the log, and the next event of its subject can be claimed. */
export async function giveUpDelivery(
  tx: Tx,
  tried: Try,
  { error, atMs }: { readonly error: string; readonly atMs: number },
): Promise<void> {
  await tx.query(`UPDATE webhook_deliveries SET last_error = $4, given_up = $5 ${ofTry}`, [
    tried.endpointId,
    tried.eventId,
    tried.attempts,
    error,
    toDate(atMs),
  ])
}

/** Makes undelivered events due now, also those that were given up. Their attempts count from 0 again. */
export async function retryUndelivered(tx: Tx, endpointId: string, nowMs: number): Promise<void> {
  await tx.query(
    `UPDATE webhook_deliveries SET due = $2, given_up = NULL, attempts = 0
     WHERE endpoint_id = $1 AND delivered IS NULL`,
    [endpointId, toDate(nowMs)],
  )
}

/** Delivers the event even if it was delivered before, or if the endpoint does not subscribe to its type. */
export async function deliverAgain(
  tx: Tx,
  endpointId: string,
  eventId: string,
  nowMs: number,
): Promise<void> {
  await tx.query(
    `INSERT INTO webhook_deliveries (endpoint_id, event_id, subject_id, position, due)
     SELECT $1, id, subject_id, position, $3 FROM webhook_events WHERE id = $2
     ON CONFLICT (endpoint_id, event_id) DO UPDATE
     SET due = excluded.due, delivered = NULL, given_up = NULL, attempts = 0, last_error = NULL`,
    [endpointId, eventId, toDate(nowMs)],
  )
}

export interface Waiting {
  /** The number of events that are neither delivered nor given up. */
  readonly count: bigint
  /** The error of the last attempt to deliver the oldest waiting event; null before the first attempt. */
  readonly lastError: string | null
}

export async function waitingAt(tx: Tx, endpointId: string): Promise<Waiting> {
  const [row] = await tx.query<{ count: bigint; last_error: string | null }>(
    `SELECT count(*) AS count, (array_agg(last_error ORDER BY position))[1] AS last_error FROM webhook_deliveries
     WHERE endpoint_id = $1 AND delivered IS NULL AND given_up IS NULL`,
    [endpointId],
  )
  return { count: row?.count ?? 0n, lastError: row?.last_error ?? null }
}
