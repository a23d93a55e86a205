import { chargeFee, transfer } from '../ledger/ledger.ts'
import { chooseDescriptor } from '../merchant/descriptor.ts'
import { exchange } from '../money/exchange.ts'
import { feeOf } from '../money/fees.ts'
import { fitsJson } from '../money/money.ts'
import { addValue } from '../money/refundable-value.ts'
import { type Refused, refuse, refuseField } from '../refusals.ts'
import { bookInTrail, type Change, type OperationContext } from './change.ts'
import { checkCurrency, checkPending, checkTrail, type Transaction, withEntry } from './transaction.ts'

export interface CaptureInput {
  readonly amount: bigint
  /** A guard: must be the transaction's. */
  readonly currency: string | null
  readonly descriptor: string | null
}

/**
 * Captures a part of the pending amount, or all of it, to the merchant's balance: converted to its currency
 * at the present rate, less the fee. The captures together never exceed the transaction's amount. Their value
 * is rounded in total: at one rate, the parts have the value of the whole.
 */
export function captureTransaction(
  transaction: Transaction,
  { amount, currency, descriptor }: CaptureInput,
  context: OperationContext,
): Change | Refused {
  const { merchant, pricing, trailLimits, nowMs } = context
  if (merchant.closedMs !== null) return refuse('merchant_closed')
  const refused =
    checkCurrency(transaction, currency) ??
    checkPending(transaction, amount, 'captured', nowMs) ??
    checkTrail(transaction, 'captures', trailLimits)
  if (refused !== undefined) return refused
  const captured = { currency: transaction.currency, amount }
  const worth = worthOf(transaction, amount, context)
  if (worth === undefined) return refuse('rate_missing')
  const fee = feeOf(pricing.fees, 'capture', merchant.currency, worth, transaction.totals.captures.value)
  if (!fitsJson(transaction.refundableValue + worth) || !fitsJson(worth - fee.total)) {
    return refuseField('amount', 'too_large', `${amount} is too much for one line in ${merchant.currency}`)
  }
  const from = { account: 'clearing', money: captured } as const
  const to = { account: 'merchant', money: { currency: merchant.currency, amount: worth } } as const
  const movement = {
    kind: 'capture',
    postings: [...transfer(from, to), ...chargeFee(merchant.currency, fee.total)],
    amount: captured,
    fee,
    description: 'Capture',
    disputeId: null,
  } as const
  const text = chooseDescriptor(descriptor, transaction.descriptor, merchant.descriptor)
  const booked = bookInTrail(transaction, movement, text, context)
  const after: Transaction = {
    ...transaction,
    pendingAmount: transaction.pendingAmount - amount,
    capturedAmount: transaction.capturedAmount + amount,
    ...addValue(transaction, worth),
    ...withEntry(transaction, booked.trailEntry),
  }
  return { transaction: after, ...booked }
}

/** Undefined without a rate. */
function worthOf(
  { currency, capturedAmount }: Transaction,
  amount: bigint,
  { merchant, pricing }: OperationContext,
): bigint | undefined {
  const worth = (total: bigint) => exchange(pricing.rates, { currency, amount: total }, merchant.currency)
  const before = worth(capturedAmount)
  const after = worth(capturedAmount + amount)
  return before === undefined || after === undefined ? undefined : after - before
}
