import type { App } from '../../domain/merchant/app.ts'
import {
  type Merchant,
  type MerchantUpdate,
  mutableMerchantFields,
  updateMerchant,
} from '../../domain/merchant/merchant.ts'
import { isRefused, refuse } from '../../domain/refusals.ts'
import type { Tx } from '../../storage/storage.ts'
import { lockMerchant, updateMerchant as saveMerchant } from '../../storage/tables/merchants.ts'
import type { Outcome, Payments } from '../operation.ts'
import { ownOpenMerchant } from './access.ts'
import { announceMerchant } from './create-merchant.ts'

export interface MerchantUpdateRequest {
  readonly app: App
  readonly merchantId: string
  readonly update: MerchantUpdate
}

/** Changes the mutable fields of a merchant. */
export async function updateOwnMerchant(
  tx: Tx,
  payments: Payments,
  { app, merchantId, update }: MerchantUpdateRequest,
): Outcome<Merchant> {
  const own = await ownOpenMerchant(tx, app, merchantId)
  if (isRefused(own)) return own
  const locked = await lockMerchant(tx, merchantId)
  if (locked === undefined) return refuse('not_found')
  if (locked.closedMs !== null) return refuse('merchant_closed')
  return saveUpdate(tx, payments, locked, update)
}

/** @param merchant the current merchant, locked by the caller */
export async function saveUpdate(
  tx: Tx,
  payments: Payments,
  merchant: Merchant,
  update: MerchantUpdate,
): Promise<Merchant> {
  const updated = updateMerchant(merchant, update)
  const changed = mutableMerchantFields.some(field => updated[field] !== merchant[field])
  if (!changed) return merchant
  await saveMerchant(tx, updated)
  announceMerchant(tx, payments, updated, 'merchant.updated')
  return updated
}
