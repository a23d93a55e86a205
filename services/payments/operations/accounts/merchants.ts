import { newPublicKey } from '../../domain/ids.ts'
import {
  type App,
  type Merchant,
  type MerchantInput,
  type MerchantUpdate,
  mutableMerchantFields,
} from '../../domain/merchant/merchant.ts'
import { presentMerchant } from '../../domain/present.ts'
import { isRefused, type Refused, refuse, refuseField } from '../../domain/refusals.ts'
import type { Tx } from '../../storage/storage.ts'
import { addMerchantApp } from '../../storage/tables/memberships.ts'
import { insertMerchant, lockMerchant, updateMerchant } from '../../storage/tables/merchants.ts'
import { announce } from '../announce.ts'
import { nextId, type Outcome, type Payments, processorOf } from '../operation.ts'
import { ownOpenMerchant } from './access.ts'

interface MerchantUpdateRequest {
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
  const updated = { ...merchant, ...update }
  const changed = mutableMerchantFields.some(field => updated[field] !== merchant[field])
  if (!changed) return merchant
  await updateMerchant(tx, updated)
  announceMerchant(tx, payments, updated, 'merchant.updated')
  return updated
}

/**
 * A new merchant, associated with the app that makes it. Refused for a live one while no card processor is
 * configured, since nothing could be paid to it.
 */
export async function createMerchant(
  tx: Tx,
  payments: Payments,
  { app, input }: { readonly app: App; readonly input: MerchantInput },
): Outcome<Merchant> {
  const merchant = newMerchant(payments, input)
  if (isRefused(merchant)) return merchant
  await insertMerchant(tx, merchant)
  await addMerchantApp(tx, merchant.id, app.id)
  announceMerchant(tx, payments, merchant, 'merchant.created')
  return merchant
}

/** @param path leads to the merchant's fields in the request */
export function newMerchant(payments: Payments, input: MerchantInput, path = ''): Merchant | Refused {
  if (processorOf(payments, input) === null) {
    const message = 'no card processor is configured here, so only test accounts (true) can be created'
    return refuseField(`${path}test`, 'unsupported', message)
  }
  const createdMs = payments.clock.nowMs()
  return {
    id: nextId(payments),
    key: newPublicKey(payments.randomBytes),
    createdMs,
    closedMs: null,
    ...input,
  }
}

export function announceMerchant(
  tx: Tx,
  payments: Payments,
  merchant: Merchant,
  type: 'merchant.created' | 'merchant.updated' | 'merchant.closed',
): void {
  const data = { merchant: presentMerchant(merchant) }
  announce(tx, payments, { type, merchantId: merchant.id, subjectId: merchant.id, data })
}
