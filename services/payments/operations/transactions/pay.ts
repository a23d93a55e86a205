import { isId } from '../../domain/ids.ts'
import { accept, type Result, reject, rejectProcessing } from '../../domain/rejections.ts'
import { type AuthorisationInput, checkAuthorisation } from '../../domain/transaction/authorise.ts'
import type { Transaction } from '../../domain/transaction/transaction.ts'
import type { CardInput } from '../../processor/processor.ts'
import type { IdempotentRequest } from '../../storage/idempotency/answers.ts'
import type { RequestState } from '../../storage/idempotency/idempotency.ts'
import { requestFingerprint } from '../../storage/idempotency/sealed-answer.ts'
import type { Tx } from '../../storage/storage.ts'
import { findMerchantByKey } from '../../storage/tables/merchants.ts'
import { findTransaction } from '../../storage/tables/transactions.ts'
import { chooseProcessor, type Payments } from '../operation.ts'
import { type AuthorisationPlan, authoriseOnce } from './authorise.ts'

interface PayerPayment {
  /** The public key of the merchant, from the payment link. */
  readonly merchantKey: string
  readonly input: AuthorisationInput
  /** The reference in the payment link, shown in the dashboard; null without one. */
  readonly reference: string | null
  /**
   * The id of the attempt to pay, with at least 128 random bits. Requests with the same id make at most one
   * payment. After a decline, the next attempt needs another id.
   */
  readonly attempt: string
}

interface PaymentRequest extends PayerPayment {
  /** The processor's reference from `authenticatePayer` or `answerChallenge`, which stands for the card. */
  readonly authentication: string
}

/**
 * `ready`: call `pay` with the reference `authentication`. `challenge`: the payer's bank requires a
 * confirmation, so call `answerChallenge` first, then `pay` with the reference that it returns.
 */
interface PayerAuthentication {
  readonly kind: 'ready' | 'challenge'
  readonly authentication: string
}

/**
 * Sends the payer's card to the processor, and to nothing else. Authorises nothing. Rejects an unknown
 * merchant key and invalid card details with a processing error.
 */
export async function authenticatePayer(
  payments: Payments,
  { merchantKey, input, card }: Pick<PayerPayment, 'merchantKey' | 'input'> & { readonly card: CardInput },
): Promise<Result<PayerAuthentication>> {
  const merchant = await payments.storage.read(tx => findPayable(tx, payments, merchantKey, input))
  if (!merchant.ok) return merchant
  const processor = chooseProcessor(payments, merchant.value)
  if (processor === null) return rejectProcessing(27)
  const { amount, currency } = input
  const found = await processor.authenticate({ card, amount, currency })
  if (found.result === 'declined') return rejectProcessing(found.error)
  return accept({ kind: found.result, authentication: found.authentication })
}

interface ChallengeAnswer {
  readonly merchantKey: string
  readonly authentication: string
  readonly confirmed: boolean
}

/** Resolves with the reference for `pay`, or with the processing error of a failed challenge. */
export async function answerChallenge(
  payments: Payments,
  { merchantKey, authentication, confirmed }: ChallengeAnswer,
): Promise<Result<{ readonly authentication: string }>> {
  const merchant = await payments.storage.read(tx => findByKey(tx, merchantKey))
  if (!merchant.ok) return merchant
  const processor = chooseProcessor(payments, merchant.value)
  if (processor === null) return rejectProcessing(27)
  const answer = await processor.answerChallenge(authentication, confirmed)
  return answer.result === 'ready' ? accept(answer) : rejectProcessing(answer.error)
}

/** Authorises the payment, and resolves with the recorded transaction, which is approved or declined. */
export async function pay(payments: Payments, request: PaymentRequest): Promise<Result<Transaction>> {
  const merchant = await payments.storage.read(tx => findByKey(tx, request.merchantKey))
  if (!merchant.ok) return merchant
  const once = await authoriseOnce(payments, {
    once: identify(merchant.value.id, request),
    plan: tx => planPayment(tx, payments, request),
    present: ({ id }) => ({ status: 201, body: id }),
  })
  if (!once.ok) return once
  const found = await readPayment(payments, once.value)
  if (!found.ok) return found
  if ('kind' in found.value) throw new Error(`the outcome of a payment is ${found.value.kind}`)
  return accept(found.value)
}

/**
 * `resumable`: the payment was interrupted, and `pay` continues it. `unknown`: nothing is stored of the
 * payment: the processor was not called, or the authorisation was cancelled.
 */
type FoundPayment = Transaction | { readonly kind: 'resumable' | 'unknown' }

/** Returns the state of a payment. Does not call the processor. */
export async function findPayment(payments: Payments, request: PayerPayment): Promise<Result<FoundPayment>> {
  const merchant = await payments.storage.read(tx => findByKey(tx, request.merchantKey))
  if (!merchant.ok) return merchant
  return readPayment(payments, await payments.idempotency.find(identify(merchant.value.id, request)))
}

async function planPayment(
  tx: Tx,
  payments: Payments,
  { merchantKey, input, reference, authentication }: PaymentRequest,
): Promise<Result<AuthorisationPlan>> {
  const merchant = await findPayable(tx, payments, merchantKey, input)
  if (!merchant.ok) return merchant
  return accept({
    merchant: merchant.value,
    input,
    source: { authentication },
    known: null,
    recurring: false,
    reference,
  })
}

async function findPayable(tx: Tx, payments: Payments, key: string, input: AuthorisationInput) {
  const merchant = await findByKey(tx, key)
  if (!merchant.ok) return merchant
  const rejected = checkAuthorisation(merchant.value, input, payments.pricing)
  return rejected === undefined ? accept(merchant.value) : rejected
}

async function findByKey(tx: Tx, key: string) {
  const merchant = isId(key) ? await findMerchantByKey(tx, key) : undefined
  return merchant === undefined ? rejectProcessing(26) : accept(merchant)
}

/**
 * Returns the idempotent request of a payment. The fingerprint contains no card data, because stored data
 * must not help to guess a card number. The last part is empty, as in older versions for a payment without
 * 3-D Secure.
 */
function identify(merchantId: string, { attempt, input, reference }: PayerPayment): IdempotentRequest {
  const parts = [String(input.amount), input.currency, reference ?? '', '']
  return { scope: `pay:${merchantId}`, key: attempt, fingerprint: requestFingerprint(attempt, parts) }
}

async function readPayment(payments: Payments, known: RequestState): Promise<Result<FoundPayment>> {
  if (known.kind === 'in-progress') return reject('idempotency_in_progress')
  if (known.kind === 'resumable' || known.kind === 'unknown') return accept({ kind: known.kind })
  if (known.kind !== 'answered') return reject('idempotency_mismatch')
  const id = known.answer.body
  const transaction = await payments.storage.read(tx => findTransaction(tx, id))
  if (transaction === undefined) throw new Error(`the recorded payment ${id} was not found`)
  return accept(transaction)
}
