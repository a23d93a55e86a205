import { newPublicKey } from '../../domain/ids.ts'
import {
  type App,
  type Merchant,
  type MerchantInput,
  type MerchantUpdate,
  mutableMerchantFields,
} from '../../domain/merchant.ts'
import { presentMerchant } from '../../domain/present.ts'
import { accept, type Result, reject, rejectField } from '../../domain/rejections.ts'
import type { Tx } from '../../storage/storage.ts'
import { addMerchantApp } from '../../storage/tables/memberships.ts'
import { insertMerchant, lockMerchant, updateMerchant } from '../../storage/tables/merchants.ts'
import { emitEvent } from '../events.ts'
import { chooseProcessor, generateId, type Payments } from '../operation.ts'
import { ownOpenMerchant } from './access.ts'

interface MerchantUpdateRequest {
  readonly app: App
  readonly merchantId: string
  readonly update: MerchantUpdate
}

export async function updateOwnMerchant(
  tx: Tx,
  payments: Payments,
  { app, merchantId, update }: MerchantUpdateRequest,
): Promise<Result<Merchant>> {
  const own = await ownOpenMerchant(tx, app, merchantId)
  if (!own.ok) return own
  const locked = await lockMerchant(tx, merchantId)
  if (locked === undefined) return reject('not_found')
  if (locked.closedMs !== null) return reject('merchant_closed')
  return accept(await saveUpdate(tx, payments, locked, update))
}

/** Stores an update of a locked merchant and emits `merchant.updated`, unless nothing changes. */
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
  emitMerchantEvent(tx, payments, updated, 'merchant.updated')
  return updated
}

export async function createMerchant(
  tx: Tx,
  payments: Payments,
  { app, input }: { readonly app: App; readonly input: MerchantInput },
): Promise<Result<Merchant>> {
  const merchant = newMerchant(payments, input)
  if (!merchant.ok) return merchant
  await insertMerchant(tx, merchant.value)
  await addMerchantApp(tx, merchant.value.id, app.id)
  emitMerchantEvent(tx, payments, merchant.value, 'merchant.created')
  return accept(merchant.value)
}

/** Rejects a live merchant without a live card processor. `path` is the prefix of fields in errors. */
export function newMerchant(payments: Payments, input: MerchantInput, path = ''): Result<Merchant> {
  if (chooseProcessor(payments, input) === null) {
    const message = 'no card processor is configured here, so only test accounts (true) can be created'
    return rejectField(`${path}test`, 'unsupported', message)
  }
  const createdMs = payments.clock.nowMs()
  return accept({
    id: generateId(payments),
    key: newPublicKey(payments.randomBytes),
    createdMs,
    closedMs: null,
    ...input,
  })
}

export function emitMerchantEvent(
  tx: Tx,
  payments: Payments,
  merchant: Merchant,
  type: 'merchant.created' | 'merchant.updated' | 'merchant.closed',
): void {
  const data = { merchant: presentMerchant(merchant) }
  emitEvent(tx, payments, { type, merchantId: merchant.id, subjectId: merchant.id, data })
}
