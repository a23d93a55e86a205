import type { SavedCard } from '../../domain/card.ts'
import type { SaveCardInput } from '../../domain/input/request-bodies.ts'
import type { App } from '../../domain/merchant.ts'
import { presentCard } from '../../domain/present.ts'
import { accept, type Result, rejectField } from '../../domain/rejections.ts'
import { recurringSource } from '../../domain/transaction/authorise.ts'
import type { Tx } from '../../storage/storage.ts'
import { insertCard } from '../../storage/tables/cards.ts'
import { findTransaction } from '../../storage/tables/transactions.ts'
import { ownOpenMerchant } from '../accounts/access.ts'
import { emitEvent } from '../events.ts'
import { generateId, type Payments } from '../operation.ts'

interface SaveCardRequest {
  readonly app: App
  readonly merchantId: string
  readonly input: SaveCardInput
}

export async function saveCard(
  tx: Tx,
  payments: Payments,
  { app, merchantId, input }: SaveCardRequest,
): Promise<Result<SavedCard>> {
  const merchant = await ownOpenMerchant(tx, app, merchantId)
  if (!merchant.ok) return merchant
  const transaction = await findTransaction(tx, input.transactionId)
  if (transaction === undefined) {
    return rejectField('transactionId', 'mismatch', 'not found, or not accessible to this app')
  }
  const source = recurringSource(merchant.value, transaction)
  if (!source.ok) return source
  const card: SavedCard = {
    id: generateId(payments),
    merchantId,
    createdMs: payments.clock.nowMs(),
    card: source.value.card,
    reference: source.value.cardReference,
    notes: input.notes,
  }
  await insertCard(tx, card)
  const data = { card: presentCard(card) }
  emitEvent(tx, payments, { type: 'card.saved', merchantId, subjectId: card.id, data })
  return accept(card)
}
