import type { TransactionInput, TransactionSource } from '../../domain/input/request-bodies.ts'
import type { App } from '../../domain/merchant.ts'
import { accept, type Result, rejectField } from '../../domain/rejections.ts'
import { checkAuthorisation, recurringSource } from '../../domain/transaction/authorise.ts'
import type { IdempotentResult } from '../../storage/idempotency/answers.ts'
import type { Tx } from '../../storage/storage.ts'
import { findCard } from '../../storage/tables/cards.ts'
import { findTransaction } from '../../storage/tables/transactions.ts'
import { ownMerchant } from '../accounts/access.ts'
import type { Payments } from '../operation.ts'
import { type AuthorisationPlan, type AuthorisationWork, authoriseOnce } from './authorise.ts'

interface TransactionRequest extends Pick<AuthorisationWork, 'once' | 'present'> {
  readonly app: App
  readonly merchantId: string
  readonly input: TransactionInput
}

/** The payer takes no part, so there is no 3-D Secure. */
export function createTransaction(
  payments: Payments,
  request: TransactionRequest,
): Promise<Result<IdempotentResult>> {
  const { once, present } = request
  const plan = (tx: Tx) => planRecurring(tx, payments, request)
  return authoriseOnce(payments, { once, present, plan })
}

async function planRecurring(
  tx: Tx,
  payments: Payments,
  { app, merchantId, input }: TransactionRequest,
): Promise<Result<AuthorisationPlan>> {
  const merchant = await ownMerchant(tx, app, merchantId)
  if (!merchant.ok) return merchant
  const rejected = checkAuthorisation(merchant.value, input, payments.pricing)
  if (rejected !== undefined) return rejected
  const earlier = await findSource(tx, input.source)
  if (!earlier.ok) return earlier
  const known = recurringSource(merchant.value, earlier.value)
  if (!known.ok) return known
  return accept({
    merchant: merchant.value,
    input,
    source: { token: known.value.cardReference.token },
    known: known.value,
    recurring: true,
    reference: null,
  })
}

async function findSource(tx: Tx, source: TransactionSource) {
  if ('transactionId' in source) {
    const transaction = await findTransaction(tx, source.transactionId)
    return transaction === undefined
      ? rejectField('transactionId', 'mismatch', 'not found, or not accessible to this app')
      : accept(transaction)
  }
  const card = await findCard(tx, source.cardId)
  return card === undefined
    ? rejectField('cardId', 'mismatch', 'not found, or not accessible to this app')
    : accept(card)
}
