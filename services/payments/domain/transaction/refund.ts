import { chargeFee, transfer } from '../ledger/ledger.ts'
import { chooseDescriptor } from '../merchant/descriptor.ts'
import { feeOf } from '../money/fees.ts'
import { takeValue } from '../money/refundable-value.ts'
import type { Refused } from '../refusals.ts'
import { bookInTrail, type Change, type OperationContext } from './change.ts'
import { checkCurrency, checkRefundable, checkTrail, type Transaction, withEntry } from './transaction.ts'

export interface RefundInput {
  readonly amount: bigint
  /** A guard: must be the transaction's. */
  readonly currency: string | null
  readonly descriptor: string | null
}

/**
 * Returns a part of the captured amount to the payer, from the merchant's balance, which may become negative.
 * Converts at the average rate of the captures that it takes from, and never at that of the day: refunding
 * everything takes exactly the amount that the captures added. The captured amount stays; refunds and
 * disputes together never exceed it.
 */
export function refundTransaction(
  transaction: Transaction,
  { amount, currency, descriptor }: RefundInput,
  context: OperationContext,
): Change | Refused {
  const { merchant, pricing, trailLimits } = context
  const refused =
    checkCurrency(transaction, currency) ??
    checkRefundable(transaction, amount) ??
    checkTrail(transaction, 'refunds', trailLimits)
  if (refused !== undefined) return refused
  const refunded = { currency: transaction.currency, amount }
  const { taken: worth, left } = takeValue(transaction, amount)
  const fee = feeOf(pricing.fees, 'refund', merchant.currency, worth, transaction.totals.refunds.value)
  const from = { account: 'merchant', money: { currency: merchant.currency, amount: worth } } as const
  const to = { account: 'clearing', money: refunded } as const
  const movement = {
    kind: 'refund',
    postings: [...transfer(from, to), ...chargeFee(merchant.currency, fee.total)],
    amount: refunded,
    fee,
    description: 'Refund',
    disputeId: null,
  } as const
  const text = chooseDescriptor(descriptor, transaction.descriptor, merchant.descriptor)
  const booked = bookInTrail(transaction, movement, text, context)
  const after: Transaction = {
    ...transaction,
    refundedAmount: transaction.refundedAmount + amount,
    ...left,
    ...withEntry(transaction, booked.trailEntry),
  }
  return { transaction: after, ...booked }
}
