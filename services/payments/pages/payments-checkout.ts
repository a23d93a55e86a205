import { isId } from '../domain/ids.ts'
import { canExchange } from '../domain/money/exchange.ts'
import type { Rejected } from '../domain/rejections.ts'
import type { Transaction } from '../domain/transaction/transaction.ts'
import { chooseProcessor, type Payments } from '../operations/operation.ts'
import { answerChallenge, authenticatePayer, findPayment, pay } from '../operations/transactions/pay.ts'
import { findMerchantByKey } from '../storage/tables/merchants.ts'
import type { AttemptDetails, Checkout, PaymentDetails, PaymentOutcome } from './checkout.ts'

/** The wait before the next look at a payment that another request makes. */
const retryAfterMs = 250

/** Implements `Checkout` with the operations of the payments service. */
export function paymentsCheckout(payments: Payments): Checkout {
  return {
    findMerchant: async key =>
      isId(key) ? payments.storage.read(tx => findMerchantByKey(tx, key)) : undefined,
    takesPayments: merchant => chooseProcessor(payments, merchant) !== null,
    acceptsCurrency: (merchant, currency) => canExchange(payments.pricing.rates, currency, merchant.currency),

    async authenticate({ card, ...details }) {
      const found = await authenticatePayer(payments, { ...toPaymentRequest(details), card })
      return found.ok ? found.value : toFinalOutcome(found)
    },

    async answerChallenge({ merchant, ...answer }) {
      const found = await answerChallenge(payments, { merchantKey: merchant.key, ...answer })
      return found.ok ? { kind: 'ready', authentication: found.value.authentication } : toFinalOutcome(found)
    },

    async pay({ authentication, ...details }) {
      const made = await pay(payments, { ...toAttempt(details), authentication })
      return made.ok ? presentOutcome(made.value) : toOutcome(made)
    },

    async find(details) {
      const found = await findPayment(payments, toAttempt(details))
      if (!found.ok) {
        const outcome = toOutcome(found)
        if (outcome.kind === 'merchant-closed')
          throw new Error('finding a payment was rejected: merchant_closed')
        return outcome
      }
      if ('kind' in found.value) return { kind: found.value.kind === 'unknown' ? 'none' : found.value.kind }
      return presentOutcome(found.value)
    },
  }
}

function toPaymentRequest({ merchant, currency, amount }: PaymentDetails) {
  return { merchantKey: merchant.key, input: { currency, amount, descriptor: null, custom: null } }
}

function toAttempt({ reference, idempotencyKey: attempt, ...details }: AttemptDetails) {
  return { ...toPaymentRequest(details), reference, attempt }
}

function presentOutcome({ id, error }: Transaction) {
  return error === null
    ? ({ kind: 'approved', transactionId: id } as const)
    : ({ kind: 'declined', error } as const)
}

function toOutcome(rejected: Rejected): PaymentOutcome {
  if (rejected.rejection.code === 'idempotency_in_progress') return { kind: 'in-progress', retryAfterMs }
  return toFinalOutcome(rejected)
}

function toFinalOutcome({ rejection: { code, processingError, message } }: Rejected) {
  if (processingError !== null) return { kind: 'declined', error: processingError.code } as const
  if (code === 'merchant_closed') return { kind: 'merchant-closed' } as const
  throw new Error(`a payment was rejected: ${code}: ${message}`)
}
