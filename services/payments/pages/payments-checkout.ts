import { isId } from '../domain/ids.ts'
import { canExchange } from '../domain/money/exchange.ts'
import { isRefused, type Refused } from '../domain/refusals.ts'
import type { Transaction } from '../domain/transaction/transaction.ts'
import { type Payments, processorOf } from '../operations/operation.ts'
import { answerChallenge, authenticatePayer, findPayment, pay } from '../operations/transactions/pay.ts'
import { findMerchantByKey } from '../storage/tables/merchants.ts'
import type { AttemptDetails, Checkout, PaymentDetails, PaymentOutcome } from './checkout.ts'

/** How soon a payment that is being made is asked about again. */
const retryAfterMs = 250

/** The payment page's view of the service's operations. */
export function paymentsCheckout(payments: Payments): Checkout {
  return {
    findMerchant: async key =>
      isId(key) ? payments.storage.read(tx => findMerchantByKey(tx, key)) : undefined,
    takesPayments: merchant => processorOf(payments, merchant) !== null,
    acceptsCurrency: (merchant, currency) => canExchange(payments.pricing.rates, currency, merchant.currency),

    async authenticate({ card, ...details }) {
      const found = await authenticatePayer(payments, { ...requestOf(details), card })
      return isRefused(found) ? endOf(found) : found
    },

    async answerChallenge({ merchant, ...answer }) {
      const found = await answerChallenge(payments, { merchantKey: merchant.key, ...answer })
      return isRefused(found) ? endOf(found) : { kind: 'ready', authentication: found.authentication }
    },

    async pay({ authentication, ...details }) {
      const made = await pay(payments, { ...attemptOf(details), authentication })
      return isRefused(made) ? outcomeOf(made) : presentOutcome(made)
    },

    async find(details) {
      const found = await findPayment(payments, attemptOf(details))
      if (isRefused(found)) {
        const outcome = outcomeOf(found)
        if (outcome.kind === 'merchant-closed') throw new Error('a look at a payment was refused')
        return outcome
      }
      if ('kind' in found) return { kind: found.kind === 'unknown' ? 'none' : found.kind }
      return presentOutcome(found)
    },
  }
}

function requestOf({ merchant, currency, amount }: PaymentDetails) {
  return { merchantKey: merchant.key, input: { currency, amount, descriptor: null, custom: null } }
}

function attemptOf({ reference, idempotencyKey: attempt, ...details }: AttemptDetails) {
  return { ...requestOf(details), reference, attempt }
}

function presentOutcome({ id, error }: Transaction) {
  return error === null
    ? ({ kind: 'approved', transactionId: id } as const)
    : ({ kind: 'declined', error } as const)
}

function outcomeOf(refused: Refused): PaymentOutcome {
  if (refused.refusal.code === 'idempotency_in_progress') return { kind: 'in-progress', retryAfterMs }
  return endOf(refused)
}

function endOf({ refusal: { code, processingError, message } }: Refused) {
  if (processingError !== null) return { kind: 'declined', error: processingError.code } as const
  if (code === 'merchant_closed') return { kind: 'merchant-closed' } as const
  throw new Error(`a payment was refused: ${code}: ${message}`)
}
