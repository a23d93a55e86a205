import { canExchange } from '../domain/exchange.ts'
import { isId } from '../domain/ids.ts'
import { isRefused, type Refusal } from '../domain/refusals.ts'
import type { Payments } from '../operations/operation.ts'
import { answerChallenge, pay } from '../operations/pay.ts'
import { findMerchantByKey } from '../storage/merchants.ts'
import type { Checkout, PaymentOutcome, PaymentRequest } from './checkout.ts'

/** How soon a payment that is being made is asked about again. */
const retryAfterMs = 250

/** The payment page's view of the service's operations. */
export function paymentsCheckout(payments: Payments): Checkout {
  return {
    findMerchant: async key =>
      isId(key) ? payments.storage.read(tx => findMerchantByKey(tx, key)) : undefined,
    acceptsCurrency: (merchant, currency) => canExchange(payments.pricing.rates, currency, merchant.currency),
    pay: request => makePayment(payments, request),
  }
}

async function makePayment(payments: Payments, request: PaymentRequest): Promise<PaymentOutcome> {
  const { merchant, currency, amount, reference, card, idempotencyKey, challengeAnswer } = request
  const merchantKey = merchant.key
  let tdsProof: string | null = null
  if (challengeAnswer !== null) {
    const answered = await answerChallenge(payments, { merchantKey, ...challengeAnswer })
    if (isRefused(answered)) return outcomeOf(answered.refusal)
    tdsProof = answered.tdsProof
  }
  const input = { currency, amount, descriptor: null, custom: null }
  const outcome = await pay(payments, {
    merchantKey,
    input,
    reference,
    card,
    tdsProof,
    attempt: idempotencyKey,
  })
  if (isRefused(outcome)) return outcomeOf(outcome.refusal)
  if (outcome.kind === 'challenge') return outcome
  const { id, error } = outcome.transaction
  return error === null ? { kind: 'approved', transactionId: id } : { kind: 'declined', error }
}

function outcomeOf({ code, processingError, message }: Refusal): PaymentOutcome {
  if (processingError !== null) return { kind: 'declined', error: processingError.code }
  if (code === 'merchant_closed') return { kind: 'merchant-closed' }
  if (code === 'idempotency_in_progress') return { kind: 'in-progress', retryAfterMs }
  throw new Error(`a payment was refused: ${code}: ${message}`)
}
