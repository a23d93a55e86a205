import { isId } from '../domain/ids.ts'
import type { Cursor, PageInput } from '../domain/input/page.ts'
import type { Line } from '../domain/ledger/ledger.ts'
import type { App, Merchant, User } from '../domain/merchant.ts'
import { accept, type Result, reject, rejectField } from '../domain/rejections.ts'
import type { Dispute, DisputeStatus } from '../domain/transaction/dispute.ts'
import type { FraudAlert } from '../domain/transaction/fraud.ts'
import type { TrailEntry } from '../domain/transaction/trail.ts'
import type { LineSearch, Transaction, TransactionSearch } from '../domain/transaction/transaction.ts'
import {
  listWebhookEndpoints,
  listWebhookEvents,
  type WebhookEndpoint,
  type WebhookEvent,
} from '../storage/delivery/webhooks.ts'
import type { ListPage, PageQuery } from '../storage/list-page.ts'
import type { Tx } from '../storage/storage.ts'
import { listDisputes } from '../storage/tables/disputes.ts'
import { listFrauds } from '../storage/tables/frauds.ts'
import { listLines } from '../storage/tables/lines.ts'
import { listMerchantApps, listMerchantUsers } from '../storage/tables/memberships.ts'
import { listFilteredMerchantsOfApp } from '../storage/tables/merchants-of-app.ts'
import { listTrail } from '../storage/tables/trail.ts'
import { listTransactions, listWithoutTrails } from '../storage/tables/transactions.ts'
import { firstFrom, lastUntil, timedLists } from '../storage/time-cursors.ts'
import { ownMerchant, ownTransaction } from './accounts/access.ts'

export interface OwnListRequest<Filter> {
  readonly app: App
  /** The id of the record that the list belongs to: a merchant, an app or a transaction. */
  readonly owner: string
  readonly page: PageInput<Filter>
}

type List = keyof typeof timedLists
type ListItems<Filter, Item> = (
  tx: Tx,
  owner: string,
  page: PageQuery,
  filter: Filter,
) => Promise<ListPage<Item>>

/** Returns a function that reads a page of a merchant's list, for an app that has access to the merchant. */
function ofMerchant<Filter, Item>(list: List, items: ListItems<Filter, Item>) {
  return async (tx: Tx, { app, owner, page }: OwnListRequest<Filter>): Promise<Result<readonly Item[]>> => {
    if (!isId(owner)) return reject('not_found')
    const found = await listItems(tx, list, { owner, page, appId: app.id }, items)
    if (found.ok && found.value.length > 0) return accept(found.value)
    // Without access to the merchant, the app gets `not_found`, and not the information that the page is
    // empty or a cursor is invalid.
    const merchant = await ownMerchant(tx, app, owner)
    return merchant.ok ? found : merchant
  }
}

type NoFilter = Readonly<Record<never, never>>

interface OfTransaction {
  readonly transactionId: string | null
}

/** The filter of lists that belong to the merchant of the request. */
interface OfMerchant extends OfTransaction {
  readonly merchantId: string
}

interface EventFilter {
  readonly type: string | null
  readonly subjectId: string | null
}

export const listOwnTransactions = ofMerchant<TransactionSearch, Transaction>(
  'transactions',
  listTransactions,
)
/** Lists transactions with empty trails, for exports. */
export const exportOwnTransactions = ofMerchant<TransactionSearch, Transaction>(
  'transactions',
  listWithoutTrails,
)
export const listOwnLines = ofMerchant<LineSearch, Line>('lines', listLines)
export const listOwnFrauds = ofMerchant<OfMerchant, FraudAlert>('frauds', listFrauds)
export const listOwnDisputes = ofMerchant<OfMerchant & { readonly status: DisputeStatus | null }, Dispute>(
  'disputes',
  listDisputes,
)
export const listOwnWebhooks = ofMerchant<NoFilter, WebhookEndpoint>('webhooks', listWebhookEndpoints)
export const listOwnEvents = ofMerchant<EventFilter, WebhookEvent>('events', listWebhookEvents)
export const listOwnUsers = ofMerchant<NoFilter, User>('users', listMerchantUsers)
export const listOwnApps = ofMerchant<NoFilter, App>('apps', listMerchantApps)

export async function listOwnTrail(
  tx: Tx,
  { app, owner, page }: OwnListRequest<NoFilter>,
): Promise<Result<readonly TrailEntry[]>> {
  const transaction = await ownTransaction(tx, app, owner)
  return transaction.ok ? listItems(tx, 'trail', { owner, page }, listTrail) : transaction
}

/** Returns a page of the merchants of an app. `owner` must be the id of the calling app. */
export async function listOwnMerchants(
  tx: Tx,
  { app, owner, page }: OwnListRequest<{ readonly test: boolean | null }>,
): Promise<Result<readonly Merchant[]>> {
  if (owner !== app.id) return reject('not_found')
  return listItems(tx, 'merchants', { owner, page }, listFilteredMerchantsOfApp)
}

interface ListPart<Filter> {
  readonly owner: string
  readonly page: PageInput<Filter>
  /** For a list of a merchant, the id of the app that must have access to the merchant. */
  readonly appId?: string
}

async function listItems<Filter, Item>(
  tx: Tx,
  list: List,
  { owner, page, ...visible }: ListPart<Filter>,
  items: ListItems<Filter, Item>,
): Promise<Result<readonly Item[]>> {
  const query = { ...(await toPageQuery(tx, list, owner, page)), ...visible }
  const found = await items(tx, owner, query, page.filter)
  if ('items' in found) return accept(found.items)
  return rejectField(found.unknownCursor, 'mismatch', 'not found in this list')
}

/** Replaces cursors that are times with the ids of the elements next to these times. */
async function toPageQuery(
  tx: Tx,
  list: List,
  owner: string,
  { limit, after, before, order }: PageInput<unknown>,
): Promise<PageQuery> {
  const idAt = (cursor: Cursor | null, find: typeof lastUntil) => {
    if (cursor === null || 'id' in cursor) return cursor?.id ?? null
    return find(tx, timedLists[list], owner, cursor.timeMs)
  }
  return {
    limit,
    after: await idAt(after, lastUntil),
    before: await idAt(before, firstFrom),
    // Set here, because a time as `after` becomes null if no element is older, and the order must still be
    // the oldest first.
    order: order ?? (after === null ? 'newest' : 'oldest'),
  }
}
