import { hashApiKey, isId } from '../../domain/ids.ts'
import type { App, Merchant } from '../../domain/merchant/merchant.ts'
import { refuse } from '../../domain/refusals.ts'
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
import { findMerchantOfApp, findMerchantOfTransaction } from '../../storage/tables/merchants-of-app.ts'
import { findTransactionOfApp, lockTransaction } from '../../storage/tables/transactions.ts'
import type { Outcome, Payments } from '../operation.ts'

/** The longest API key that is hashed; a longer one is rejected. */
const maxKeyCharacters = 256

/**
 * Returns the app that the key authenticates now.
 *
 * @param key null when the request has none
 */
export async function authenticate(
  tx: Tx,
  { clock }: Pick<Payments, 'clock'>,
  key: string | null,
): Outcome<App> {
  if (key === null || key === '' || key.length > maxKeyCharacters) return refuse('unauthorized')
  return (await findAppByKeyHash(tx, hashApiKey(key), clock.nowMs())) ?? refuse('unauthorized')
}

/**
 * The functions below return a record only to an app that has its merchant. Other apps get `not_found`, as
 * for an invalid id, so that guessing ids reveals nothing.
 */
export async function ownMerchant(tx: Tx, app: App, merchantId: string): Outcome<Merchant> {
  if (!isId(merchantId)) return refuse('not_found')
  return (await findMerchantOfApp(tx, merchantId, app.id)) ?? refuse('not_found')
}

/** Returns the merchant if it is open: a closed merchant accepts nothing new. */
export async function ownOpenMerchant(tx: Tx, app: App, merchantId: string): Outcome<Merchant> {
  const merchant = await ownMerchant(tx, app, merchantId)
  return 'refusal' in merchant || merchant.closedMs === null ? merchant : refuse('merchant_closed')
}

interface OwnTransaction {
  readonly transaction: Transaction
  readonly merchant: Merchant
}

/** Locks the record: it cannot change until the end of `tx`. */
export async function lockOwnTransaction(tx: Tx, app: App, id: string): Outcome<OwnTransaction> {
  if (!isId(id)) return refuse('not_found')
  const [transaction, merchant] = await Promise.all([
    lockTransaction(tx, id),
    findMerchantOfTransaction(tx, id, app.id),
  ])
  return transaction === undefined || merchant === undefined ? refuse('not_found') : { transaction, merchant }
}

export async function ownTransaction(tx: Tx, app: App, id: string): Outcome<Transaction> {
  if (!isId(id)) return refuse('not_found')
  return (await findTransactionOfApp(tx, id, app.id)) ?? refuse('not_found')
}

type Find<T> = (tx: Tx, id: string) => Promise<T | undefined>

/** Returns a function that finds a record of a merchant by its id, for an app that has the merchant. */
function own<T extends { readonly merchantId: string }>(find: Find<T>) {
  return async (tx: Tx, app: App, id: string): Outcome<T> => {
    const found = isId(id) ? await find(tx, id) : undefined
    if (found === undefined) return refuse('not_found')
    const merchant = await findMerchantOfApp(tx, found.merchantId, app.id)
    return merchant === undefined ? refuse('not_found') : found
  }
}

export const ownCard = own(findCard)
export const ownLine = own(findLine)
export const ownFraud = own(findFraud)
export const ownDispute = own(findDispute)
export const ownWebhook = own(findWebhookEndpoint)
/** Locks the record: it cannot change until the end of `tx`. */
export const lockOwnWebhook = own(lockWebhookEndpoint)
export const ownEvent = own(findWebhookEvent)
