import type { TransactionInput, TransactionSource } from '../../domain/input/request-bodies.ts'
import type { App } from '../../domain/merchant/merchant.ts'
import { isRefused, type Refused, refuseField } from '../../domain/refusals.ts'
import { checkAuthorisation, recurringSource } from '../../domain/transaction/authorise.ts'
import type { Once } from '../../storage/idempotency/answers.ts'
import type { Tx } from '../../storage/storage.ts'
import { findCard } from '../../storage/tables/cards.ts'
import { findTransaction } from '../../storage/tables/transactions.ts'
import { ownMerchant } from '../accounts/access.ts'
import type { Payments } from '../operation.ts'
import { type AuthorisationOnce, type AuthorisationPlan, authoriseOnce } from './authorise.ts'

interface TransactionRequest extends Pick<AuthorisationOnce, 'once' | 'present'> {
  readonly app: App
  readonly merchantId: string
  readonly input: TransactionInput
}

/**
 * A recurring payment: charges the card of an earlier transaction or a saved card, without the payer. Never
 * with 3-D Secure (the specification's rules of recurring payments).
 */
export function createTransaction(payments: Payments, request: TransactionRequest): Promise<Once | Refused> {
  const { once, present } = request
  const plan = (tx: Tx) => planRecurring(tx, payments, request)
  return authoriseOnce(payments, { once, present, plan })
}

async function planRecurring(
  tx: Tx,
  payments: Payments,
  { app, merchantId, input }: TransactionRequest,
): Promise<AuthorisationPlan | Refused> {
  const merchant = await ownMerchant(tx, app, merchantId)
  if (isRefused(merchant)) return merchant
  const refused = checkAuthorisation(merchant, input, payments.pricing)
  if (refused !== undefined) return refused
  const earlier = await findSource(tx, input.source)
  if (isRefused(earlier)) return earlier
  const known = recurringSource(merchant, earlier)
  if (isRefused(known)) return known
  return {
    merchant,
    input,
    source: { token: known.cardReference.token },
    known,
    recurring: true,
    reference: null,
  }
}

async function findSource(tx: Tx, source: TransactionSource) {
  if ('transactionId' in source) {
    const transaction = await findTransaction(tx, source.transactionId)
    return transaction ?? refuseField('transactionId', 'mismatch', 'there is no such transaction')
  }
  return (await findCard(tx, source.cardId)) ?? refuseField('cardId', 'mismatch', 'there is no such card')
}
