import { type ListPage, listOfMerchant, listPage, type PageQuery } from '../list-page.ts'
import { type Tx, toDate } from '../storage.ts'
import { instantColumn, nullableInstantColumn, type Row, Table, valueColumn } from '../table.ts'

export interface WebhookEndpoint {
  readonly id: string
  readonly merchantId: string
  readonly createdMs: number
  readonly url: string
  /** The types of events that the endpoint receives; empty for all. */
  readonly events: readonly string[]
  /** The secrets that sign events, the newest first. During a rotation there are two. */
  readonly secrets: readonly string[]
  /** When the endpoint was disabled; null while it is enabled. A disabled endpoint receives no events. */
  readonly disabledMs: number | null
}

/** An event of a merchant, such as a capture. Events are stored in a log, which the API lists. */
export interface WebhookEvent {
  readonly id: string
  readonly merchantId: string
  readonly createdMs: number
  readonly type: string
  /** The id of the record that changed. An endpoint gets the events of one subject in order. */
  readonly subjectId: string
  /** The body of the request to the endpoint, which is signed. */
  readonly body: string
}

const endpoints = new Table('webhook_endpoints', {
  merchantId: valueColumn<string>('merchant_id'),
  id: valueColumn<string>('id'),
  createdMs: instantColumn('created'),
  url: valueColumn<string>('url'),
  events: valueColumn<readonly string[]>('events'),
  secrets: valueColumn<readonly string[]>('secrets'),
  disabledMs: nullableInstantColumn('disabled'),
})

const events = new Table('webhook_events', {
  merchantId: valueColumn<string>('merchant_id'),
  id: valueColumn<string>('id'),
  createdMs: instantColumn('created'),
  type: valueColumn<string>('type'),
  subjectId: valueColumn<string>('subject_id'),
  body: valueColumn<string>('body'),
})

const insertEndpoint = endpoints.insertAtNextPosition()
const restoreEndpoint = `ON CONFLICT (id) DO UPDATE SET url = excluded.url, events = excluded.events,
  secrets = excluded.secrets, disabled = excluded.disabled, deleted = NULL`

/** Restores a deleted endpoint with the same id, with the new values, at its previous position. */
export async function insertWebhookEndpoint(tx: Tx, endpoint: WebhookEndpoint): Promise<void> {
  await tx.query(`${insertEndpoint.sql} ${restoreEndpoint}`, insertEndpoint.values(endpoint))
}

const updateEndpoint = endpoints.update('url', 'events', 'secrets', 'disabledMs')

/** Stores the fields that can change: URL, events, secrets, and the time when the endpoint was disabled. */
export async function updateWebhookEndpoint(tx: Tx, endpoint: WebhookEndpoint): Promise<void> {
  await tx.query(updateEndpoint.sql, updateEndpoint.values(endpoint))
}

/** Lists omit a deleted endpoint, and it gets no more events, not even waiting ones. */
export async function deleteWebhookEndpoint(tx: Tx, id: string, atMs: number): Promise<void> {
  await tx.query(
    'UPDATE webhook_endpoints SET deleted = $2, disabled = coalesce(disabled, $2) WHERE id = $1',
    [id, toDate(atMs)],
  )
}

/** Disables an endpoint. If it is disabled already, the earlier time stays. */
export async function disableWebhookEndpoint(tx: Tx, id: string, atMs: number): Promise<void> {
  await tx.query('UPDATE webhook_endpoints SET disabled = coalesce(disabled, $2) WHERE id = $1', [
    id,
    toDate(atMs),
  ])
}

/** Locks the endpoint until this transaction ends. Returns undefined if it is deleted. */
export async function lockWebhookEndpoint(tx: Tx, id: string): Promise<WebhookEndpoint | undefined> {
  return find(tx, `${findEndpoint} FOR NO KEY UPDATE`, id)
}

/** Returns an endpoint; undefined if it is deleted. */
export async function findWebhookEndpoint(tx: Tx, id: string): Promise<WebhookEndpoint | undefined> {
  return find(tx, findEndpoint, id)
}

const findEndpoint = `SELECT ${endpoints.columns} FROM webhook_endpoints
  WHERE id = $1 AND deleted IS NULL`

async function find(tx: Tx, sql: string, id: string): Promise<WebhookEndpoint | undefined> {
  const [row] = await tx.query<Row>(sql, [id])
  return row === undefined ? undefined : endpoints.read(row)
}

const endpointsOfMerchant = {
  ...listOfMerchant(endpoints),
  from: '(SELECT * FROM webhook_endpoints WHERE deleted IS NULL) AS endpoints',
}

export function listWebhookEndpoints(
  tx: Tx,
  merchantId: string,
  page: PageQuery,
): Promise<ListPage<WebhookEndpoint>> {
  return listPage(tx, endpointsOfMerchant, merchantId, page)
}

const eventsOfMerchant = listOfMerchant(events)

export function listWebhookEvents(
  tx: Tx,
  merchantId: string,
  page: PageQuery,
  filters: { readonly type?: string | null; readonly subjectId?: string | null } = {},
): Promise<ListPage<WebhookEvent>> {
  const { type, subjectId } = filters
  return listPage(tx, eventsOfMerchant, merchantId, page, { type, subject_id: subjectId })
}

const insertEvent = events.insertAtNextPositionWith(`
  INSERT INTO webhook_deliveries (endpoint_id, event_id, subject_id, position, due)
  SELECT endpoint.id, inserted.id, inserted.subject_id, inserted.position, inserted.created
  FROM inserted, webhook_endpoints endpoint
  WHERE endpoint.merchant_id = $1 AND endpoint.disabled IS NULL
    AND (cardinality(endpoint.events) = 0 OR inserted.type = ANY (endpoint.events))`)

export const findWebhookEvent: (tx: Tx, id: string) => Promise<WebhookEvent | undefined> = events.find

/**
 * Adds an event to the log, and a delivery that is due at once for each endpoint that subscribes to its type.
 * Locks the merchant's lists until the end of this database transaction.
 */
export function insertWebhookEvent(tx: Tx, event: WebhookEvent): void {
  tx.send(insertEvent.sql, insertEvent.values(event))
}
