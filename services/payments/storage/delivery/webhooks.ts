import { type ListSource, listPage, type Page, type PageQuery } from '../list-page.ts'
import { insertAtNextPosition, toDate, toDateOrNull, toMsOrNull } from '../sql-statements.ts'
import type { Tx } from '../storage.ts'

export interface WebhookEndpoint {
  readonly id: string
  readonly merchantId: string
  readonly createdMs: number
  readonly url: string
  /** The types of events that the endpoint receives; empty for all. */
  readonly events: readonly string[]
  /** The secrets of signatures, newest first. A rotation needs two. */
  readonly secrets: readonly string[]
  /** The time when the endpoint was disabled. A disabled endpoint receives no events. */
  readonly disabledMs: number | null
}

/** An event. The log of events can be read again. */
export interface WebhookEvent {
  readonly id: string
  readonly merchantId: string
  readonly createdMs: number
  readonly type: string
  /**
   * The id of the record that changed, such as a transaction. Events of one subject are delivered in order.
   */
  readonly subjectId: string
  /** The body that is signed and sent. */
  readonly body: string
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

const insertEndpointRow = `${insertAtNextPosition('webhook_endpoints', endpointColumns)}
  ON CONFLICT (id) DO UPDATE SET url = excluded.url, events = excluded.events, secrets = excluded.secrets,
    disabled = excluded.disabled, deleted = NULL`

/** Inserts an endpoint. A deleted endpoint returns under its id, at its old place. */
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

/**
 * Deletes an endpoint: it disappears from lists and receives no more events. Waiting events are not
 * delivered.
 */
export async function deleteWebhookEndpoint(tx: Tx, id: string, atMs: number): Promise<void> {
  await tx.query(
    'UPDATE webhook_endpoints SET deleted = $2, disabled = coalesce(disabled, $2) WHERE id = $1',
    [id, toDate(atMs)],
  )
}

/** Disables an endpoint: it receives no events until it is enabled again. */
export async function disableWebhookEndpoint(tx: Tx, id: string, atMs: number): Promise<void> {
  await tx.query('UPDATE webhook_endpoints SET disabled = coalesce(disabled, $2) WHERE id = $1', [
    id,
    toDate(atMs),
  ])
}

/** Returns an endpoint that is not deleted. */
export async function lockWebhookEndpoint(tx: Tx, id: string): Promise<WebhookEndpoint | undefined> {
  return find(tx, `${findEndpoint} FOR NO KEY UPDATE`, id)
}

/** Returns an endpoint that is not deleted. */
export async function findWebhookEndpoint(tx: Tx, id: string): Promise<WebhookEndpoint | undefined> {
  return find(tx, findEndpoint, id)
}

const findEndpoint = `SELECT ${endpointColumns.join(', ')} FROM webhook_endpoints
  WHERE id = $1 AND deleted IS NULL`

async function find(tx: Tx, sql: string, id: string): Promise<WebhookEndpoint | undefined> {
  const [row] = await tx.query<EndpointRow>(sql, [id])
  return row === undefined ? undefined : endpointOf(row)
}

const endpointsOfMerchant: ListSource<EndpointRow, WebhookEndpoint> = {
  columns: endpointColumns.join(', '),
  from: '(SELECT * FROM webhook_endpoints WHERE deleted IS NULL) AS endpoints',
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

const findEvent = `SELECT ${eventColumns.join(', ')} FROM webhook_events WHERE id = $1`

export async function findWebhookEvent(tx: Tx, id: string): Promise<WebhookEvent | undefined> {
  const [row] = await tx.query<EventRow>(findEvent, [id])
  return row === undefined ? undefined : eventOf(row)
}

/**
 * Adds an event to the log, and makes it due at each endpoint that subscribes to its type. Locks the
 * merchant's lists.
 */
export function insertWebhookEvent(tx: Tx, event: WebhookEvent): void {
  const { merchantId, id, createdMs, type, subjectId, body } = event
  tx.send(insertEvent, [merchantId, id, toDate(createdMs), type, subjectId, body])
}
