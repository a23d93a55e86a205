import { hashApiKey, isId } from '../../domain/ids.ts'
import type { App, Merchant } from '../../domain/merchant.ts'
import { accept, type Result, reject } from '../../domain/rejections.ts'
import type { Transaction } from '../../domain/transaction/transaction.ts'
import {
  findWebhookEndpoint,
  findWebhookEvent,
  lockWebhookEndpoint,
} from '../../storage/delivery/webhooks.ts'
import type { Tx } from '../../storage/storage.ts'
import { findAppByKeyHash } from '../../storage/tables/apps.ts'
import { findCard } from '../../storage/tables/cards.ts'
import { findDispute } from '../../storage/tables/disputes.ts'
import { findFraud } from '../../storage/tables/frauds.ts'
import { findLine } from '../../storage/tables/lines.ts'
import { findMerchant } from '../../storage/tables/merchants.ts'
import { findMerchantOfApp, findMerchantOfTransaction } from '../../storage/tables/merchants-of-app.ts'
import { findTransactionOfApp, lockTransaction } from '../../storage/tables/transactions.ts'
import type { Payments } from '../operation.ts'

/** A longer API key, in characters, is rejected without a query. */
const maxKeyCharacters = 256

/** Rejects a missing, unknown or expired key as `unauthorized`. */
export async function authenticate(
  tx: Tx,
  { clock }: Pick<Payments, 'clock'>,
  key: string | null,
): Promise<Result<App>> {
  if (key === null || key === '' || key.length > maxKeyCharacters) return reject('unauthorized')
  const app = await findAppByKeyHash(tx, hashApiKey(key), clock.nowMs())
  return app === undefined ? reject('unauthorized') : accept(app)
}

/**
 * Returns a merchant to an app that has access to it. This function and all below reject a record of another
 * merchant as `not_found`, like an id that does not exist, so that guessing ids reveals nothing.
 */
export async function ownMerchant(tx: Tx, app: App, merchantId: string): Promise<Result<Merchant>> {
  if (!isId(merchantId)) return reject('not_found')
  const merchant = await findMerchantOfApp(tx, merchantId, app.id)
  return merchant === undefined ? reject('not_found') : accept(merchant)
}

export async function ownOpenMerchant(tx: Tx, app: App, merchantId: string): Promise<Result<Merchant>> {
  const merchant = await ownMerchant(tx, app, merchantId)
  if (!merchant.ok) return merchant
  return merchant.value.closedMs === null ? accept(merchant.value) : reject('merchant_closed')
}

export interface TransactionWithMerchant {
  readonly transaction: Transaction
  readonly merchant: Merchant
}

/** Locks a transaction of any merchant; undefined if it does not exist. */
export async function lockWithMerchant(tx: Tx, id: string): Promise<TransactionWithMerchant | undefined> {
  const transaction = await lockTransaction(tx, id)
  const merchant = transaction && (await findMerchant(tx, transaction.merchantId))
  return transaction && merchant && { transaction, merchant }
}

/** Also locks the record, so that no other transaction can change it until `tx` ends. */
export async function lockOwnTransaction(
  tx: Tx,
  app: App,
  id: string,
): Promise<Result<TransactionWithMerchant>> {
  if (!isId(id)) return reject('not_found')
  const [transaction, merchant] = await Promise.all([
    lockTransaction(tx, id),
    findMerchantOfTransaction(tx, id, app.id),
  ])
  return transaction === undefined || merchant === undefined
    ? reject('not_found')
    : accept({ transaction, merchant })
}

export async function ownTransaction(tx: Tx, app: App, id: string): Promise<Result<Transaction>> {
  if (!isId(id)) return reject('not_found')
  const transaction = await findTransactionOfApp(tx, id, app.id)
  return transaction === undefined ? reject('not_found') : accept(transaction)
}

type Find<T> = (tx: Tx, id: string) => Promise<T | undefined>

/** Returns a function that finds a record, and rejects it if the app has no access to its merchant. */
function own<T extends { readonly merchantId: string }>(find: Find<T>) {
  return async (tx: Tx, app: App, id: string): Promise<Result<T>> => {
    const found = isId(id) ? await find(tx, id) : undefined
    if (found === undefined) return reject('not_found')
    const merchant = await findMerchantOfApp(tx, found.merchantId, app.id)
    return merchant === undefined ? reject('not_found') : accept(found)
  }
}

export const ownCard = own(findCard)
export const ownLine = own(findLine)
export const ownFraud = own(findFraud)
export const ownDispute = own(findDispute)
export const ownWebhook = own(findWebhookEndpoint)
/** Also locks the record, so that no other transaction can change it until `tx` ends. */
export const lockOwnWebhook = own(lockWebhookEndpoint)
export const ownEvent = own(findWebhookEvent)
