import { type ListSource, listPage, type Page, type PageQuery } from './list-page.ts'
import { insertAtNextPosition, toDate, toDateOrNull, toMsOrNull } from './statements.ts'
import type { Tx } from './storage.ts'

export interface WebhookEndpoint {
  readonly id: string
  readonly merchantId: string
  readonly createdMs: number
  readonly url: string
  /** The types of events that it wants; empty for all. */
  readonly events: readonly string[]
  /** What signatures are made with, the newest first. Two while they are rotated. */
  readonly secrets: readonly string[]
  /** Since when nothing is delivered to it any more. */
  readonly disabledMs: number | null
}

/** One thing that happened. The log of them is kept, to be read again. */
export interface WebhookEvent {
  readonly id: string
  readonly merchantId: string
  readonly createdMs: number
  readonly type: string
  /** What it happened to, such as a transaction: events of one subject are delivered in their order. */
  readonly subjectId: string
  /** The body as it is signed and sent. */
  readonly body: string
}

/** An event on its way to an endpoint. */
export interface WebhookDelivery {
  readonly endpointId: string
  readonly eventId: string
  readonly url: string
  readonly secrets: readonly string[]
  readonly body: string
  /** With the try that now begins. */
  readonly attempts: number
}

interface EndpointRow {
  readonly id: string
  readonly merchant_id: string
  readonly created: Date
  readonly url: string
  readonly events: readonly string[]
  readonly secrets: readonly string[]
  readonly disabled: Date | null
}

interface EventRow {
  readonly id: string
  readonly merchant_id: string
  readonly created: Date
  readonly type: string
  readonly subject_id: string
  readonly body: string
}

const endpointColumns = ['merchant_id', 'id', 'created', 'url', 'events', 'secrets', 'disabled']
const eventColumns = ['merchant_id', 'id', 'created', 'type', 'subject_id', 'body']

function endpointOf(row: EndpointRow): WebhookEndpoint {
  const { id, url, events, secrets } = row
  const merchantId = row.merchant_id
  return {
    id,
    merchantId,
    createdMs: row.created.getTime(),
    url,
    events,
    secrets,
    disabledMs: toMsOrNull(row.disabled),
  }
}

function eventOf(row: EventRow): WebhookEvent {
  const { id, type, body } = row
  return {
    id,
    merchantId: row.merchant_id,
    createdMs: row.created.getTime(),
    type,
    subjectId: row.subject_id,
    body,
  }
}

const insertEndpointRow = insertAtNextPosition('webhook_endpoints', endpointColumns)

export async function insertWebhookEndpoint(tx: Tx, endpoint: WebhookEndpoint): Promise<void> {
  await tx.query(insertEndpointRow, [
    endpoint.merchantId,
    endpoint.id,
    toDate(endpoint.createdMs),
    endpoint.url,
    endpoint.events,
    endpoint.secrets,
    toDateOrNull(endpoint.disabledMs),
  ])
}

/** Stores the fields that change: URL, events, secrets, and whether it is disabled. */
export async function updateWebhookEndpoint(tx: Tx, endpoint: WebhookEndpoint): Promise<void> {
  await tx.query(
    'UPDATE webhook_endpoints SET url = $2, events = $3, secrets = $4, disabled = $5 WHERE id = $1',
    [endpoint.id, endpoint.url, endpoint.events, endpoint.secrets, toDateOrNull(endpoint.disabledMs)],
  )
}

export async function findWebhookEndpoint(tx: Tx, id: string): Promise<WebhookEndpoint | undefined> {
  const sql = `SELECT ${endpointColumns.join(', ')} FROM webhook_endpoints WHERE id = $1`
  const [row] = await tx.query<EndpointRow>(sql, [id])
  return row === undefined ? undefined : endpointOf(row)
}

const endpointsOfMerchant: ListSource<EndpointRow, WebhookEndpoint> = {
  columns: endpointColumns.join(', '),
  from: 'webhook_endpoints',
  owner: 'merchant_id',
  id: 'id',
  position: 'position',
  item: endpointOf,
}

export function listWebhookEndpoints(
  tx: Tx,
  merchantId: string,
  page: PageQuery,
): Promise<Page<WebhookEndpoint>> {
  return listPage(tx, endpointsOfMerchant, merchantId, page)
}

const eventsOfMerchant: ListSource<EventRow, WebhookEvent> = {
  columns: eventColumns.join(', '),
  from: 'webhook_events',
  owner: 'merchant_id',
  id: 'id',
  position: 'position',
  item: eventOf,
}

export function listWebhookEvents(
  tx: Tx,
  merchantId: string,
  page: PageQuery,
  filters: { readonly type?: string | null; readonly subjectId?: string | null } = {},
): Promise<Page<WebhookEvent>> {
  const { type, subjectId } = filters
  return listPage(tx, eventsOfMerchant, merchantId, page, { type, subject_id: subjectId })
}

const insertEvent = `WITH place AS (UPDATE positions SET last = last + 1 WHERE owner = $1 RETURNING last),
    event AS (
      INSERT INTO webhook_events (merchant_id, id, created, type, subject_id, body, position)
      VALUES ($1, $2, $3, $4, $5, $6, (SELECT last FROM place)) RETURNING id, position
    )
  INSERT INTO webhook_deliveries (endpoint_id, event_id, subject_id, position, due)
  SELECT endpoint.id, event.id, $5, event.position, $3 FROM event, webhook_endpoints endpoint
  WHERE endpoint.merchant_id = $1 AND endpoint.disabled IS NULL
    AND (cardinality(endpoint.events) = 0 OR $4 = ANY (endpoint.events))`

/** Adds to the log, and makes it due at each endpoint that wants it. Holds the merchant's lists. */
export async function insertWebhookEvent(tx: Tx, event: WebhookEvent): Promise<void> {
  const { merchantId, id, createdMs, type, subjectId, body } = event
  await tx.query(insertEvent, [merchantId, id, toDate(createdMs), type, subjectId, body])
}

interface DeliveryRow {
  readonly endpoint_id: string
  readonly event_id: string
  readonly url: string
  readonly secrets: readonly string[]
  readonly body: string
  readonly attempts: number
}

const claimDue = `UPDATE webhook_deliveries d SET attempts = d.attempts + 1, due = $2
  FROM (
    SELECT c.endpoint_id, c.event_id
    FROM webhook_deliveries c JOIN webhook_endpoints e ON e.id = c.endpoint_id AND e.disabled IS NULL
    WHERE c.due <= $1 AND c.delivered IS NULL AND c.given_up IS NULL AND NOT EXISTS (
      SELECT FROM webhook_deliveries earlier
      WHERE earlier.endpoint_id = c.endpoint_id AND earlier.subject_id = c.subject_id
        AND earlier.position < c.position AND earlier.delivered IS NULL AND earlier.given_up IS NULL
    )
    ORDER BY c.due LIMIT $3 FOR UPDATE OF c SKIP LOCKED
  ) chosen, webhook_endpoints endpoint, webhook_events event
  WHERE d.endpoint_id = chosen.endpoint_id AND d.event_id = chosen.event_id
    AND endpoint.id = d.endpoint_id AND event.id = d.event_id
  RETURNING d.endpoint_id, d.event_id, endpoint.url, endpoint.secrets, event.body, d.attempts`

/**
 * Takes due deliveries for this process alone until `leaseUntilMs`. Of one subject, an endpoint gets an event only
 * when those before it were delivered or given up.
 */
export async function claimDueDeliveries(
  tx: Tx,
  nowMs: number,
  leaseUntilMs: number,
  limit: number,
): Promise<readonly WebhookDelivery[]> {
  const rows = await tx.query<DeliveryRow>(claimDue, [toDate(nowMs), toDate(leaseUntilMs), limit])
  return rows.map(({ endpoint_id, event_id, ...rest }) => ({
    endpointId: endpoint_id,
    eventId: event_id,
    ...rest,
  }))
}

type DeliveryId = Pick<WebhookDelivery, 'endpointId' | 'eventId'>

export async function markDelivered(tx: Tx, id: DeliveryId, atMs: number): Promise<void> {
  await tx.query(
    'UPDATE webhook_deliveries SET delivered = $3, last_error = NULL WHERE endpoint_id = $1 AND event_id = $2',
    [id.endpointId, id.eventId, toDate(atMs)],
  )
}

/** @param dueMs when it is tried again; null gives it up */
export async function postponeDelivery(
  tx: Tx,
  id: DeliveryId,
  { error, dueMs, nowMs }: { readonly error: string; readonly dueMs: number | null; readonly nowMs: number },
): Promise<void> {
  await tx.query(
    `UPDATE webhook_deliveries SET last_error = $3, due = coalesce($4, due),
       given_up = CASE WHEN $4::timestamptz IS NULL THEN $5::timestamptz END
     WHERE endpoint_id = $1 AND event_id = $2`,
    [id.endpointId, id.eventId, error, toDateOrNull(dueMs), toDate(nowMs)],
  )
}
