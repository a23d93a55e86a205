import { isId } from '../domain/ids.ts'
import { canExchange } from '../domain/money/exchange.ts'
import type { Rejected } from '../domain/rejections.ts'
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
      return found.ok ? found.value : endOf(found)
    },

    async answerChallenge({ merchant, ...answer }) {
      const found = await answerChallenge(payments, { merchantKey: merchant.key, ...answer })
      return found.ok ? { kind: 'ready', authentication: found.value.authentication } : endOf(found)
    },

    async pay({ authentication, ...details }) {
      const made = await pay(payments, { ...attemptOf(details), authentication })
      return made.ok ? presentOutcome(made.value) : outcomeOf(made)
    },

    async find(details) {
      const found = await findPayment(payments, attemptOf(details))
      if (!found.ok) {
        const outcome = outcomeOf(found)
        if (outcome.kind === 'merchant-closed') throw new Error('a look at a payment was rejected')
        return outcome
      }
      if ('kind' in found.value) return { kind: found.value.kind === 'unknown' ? 'none' : found.value.kind }
      return presentOutcome(found.value)
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

function outcomeOf(rejected: Rejected): PaymentOutcome {
  if (rejected.rejection.code === 'idempotency_in_progress') return { kind: 'in-progress', retryAfterMs }
  return endOf(rejected)
}

function endOf({ rejection: { code, processingError, message } }: Rejected) {
  if (processingError !== null) return { kind: 'declined', error: processingError.code } as const
  if (code === 'merchant_closed') return { kind: 'merchant-closed' } as const
  throw new Error(`a payment was rejected: ${code}: ${message}`)
}
