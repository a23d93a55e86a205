import { chargeFee, type LedgerEntry, transfer } from '../ledger/ledger.ts'
import { exchange } from '../money/exchange.ts'
import { calculateFee, type Fee, noFee } from '../money/fees.ts'
import { fitsJson, scale, total } from '../money/money.ts'
import { addValue, takeValue } from '../money/refundable-value.ts'
import { accept, type Result, reject, rejectField } from '../rejections.ts'
import {
  book,
  createTrailEntry,
  type Movement,
  type OperationContext,
  type TransactionChange,
} from './change.ts'
import { remainingAmount, type Transaction, withEntry } from './transaction.ts'

/** A claim of the payer's bank to take captured money back, such as a chargeback. */
export interface Dispute {
  readonly id: string
  readonly merchantId: string
  readonly transactionId: string
  readonly createdMs: number
  /** The amount in minor units of the transaction's currency. */
  readonly amount: bigint
  readonly currency: string
  readonly status: DisputeStatus
  readonly reason: string | null
  /** The end of the time in which the merchant can answer; null if that time is not known. */
  readonly dueMs: number | null
  /**
   * The amount that is taken from the balance until the dispute is resolved, without the fee, in the currency
   * of the balance.
   */
  readonly held: bigint
  /** The part of `amount` above the remaining amount at the time when the dispute was raised. */
  readonly excess: bigint
  /** The part of `held` for `excess`. */
  readonly excessHeld: bigint
  /** The fee of the dispute, which stays paid after a win too. */
  readonly fee: Fee
  /** The line that took `held` and the fee from the balance. */
  readonly lineId: string
  /** When the dispute was won or lost; null while it is open. */
  readonly resolvedMs: number | null
}

export const disputeStatuses = ['open', 'won', 'lost'] as const
export type DisputeStatus = (typeof disputeStatuses)[number]
export const disputeOutcomes = ['won', 'lost'] as const satisfies readonly DisputeStatus[]
export type DisputeOutcome = (typeof disputeOutcomes)[number]

interface DisputeInput {
  /** The id of the dispute, which `derivedId` derives from the processor's id. By default, a new id. */
  readonly id?: string
  readonly amount: bigint
  readonly reason: string | null
  readonly dueMs: number | null
  /** All earlier disputes of the transaction, because fees and held amounts are rounded for all together. */
  readonly earlier: readonly Dispute[]
}

export interface DisputeChange extends TransactionChange {
  readonly dispute: Dispute
}

/**
 * Opens a dispute. Its amount and the fee are taken from the merchant's balance; the amount is held until the
 * dispute is won or lost. The trail gets an entry only when the dispute is resolved.
 *
 * A dispute may exceed the remaining and even the captured amount, because the payer's bank does not know of
 * refunds. Such a dispute is booked in full: the excess is taken from the balance too, which may become
 * negative. After a win, the excess cannot be refunded. The excess is converted at the average rate of the
 * captures, or at the present rate if nothing was captured.
 */
export function raiseDispute(
  transaction: Transaction,
  input: DisputeInput,
  context: OperationContext,
): Result<DisputeChange> {
  const { merchant, pricing, nowMs, nextId } = context
  const { id = nextId(), amount, reason, dueMs, earlier } = input
  if (amount < 1n) return rejectField('amount', 'too_small', `${amount} is below 1`)
  const remaining = remainingAmount(transaction)
  const excess = amount > remaining ? amount - remaining : 0n
  const excessHeld = calculateExcessHeld(transaction, excess, earlier, context)
  if (excessHeld === undefined) return reject('rate_missing')
  const { taken, left } = takeValue(transaction, amount - excess)
  const held = taken + excessHeld
  if (!fitsJson(amount) || !fitsJson(held)) {
    return rejectField(
      'amount',
      'too_large',
      `${amount} is above the maximum of a line in ${merchant.currency}`,
    )
  }
  const { currency } = transaction
  const fee = calculateFee(
    pricing.fees,
    'dispute',
    merchant.currency,
    held,
    total(earlier.map(one => one.held)),
  )
  const from = { account: 'merchant', money: { currency: merchant.currency, amount: held } } as const
  const to = { account: 'disputes', money: { currency, amount } } as const
  const movement: Movement = {
    kind: 'dispute',
    postings: [...transfer(from, to), ...chargeFee(merchant.currency, fee.total)],
    amount: { currency, amount },
    fee,
    description: 'Dispute',
    disputeId: id,
  }
  const { line, ledgerEntry } = book(movement, transaction.id, context)
  const dispute: Dispute = {
    id,
    merchantId: merchant.id,
    transactionId: transaction.id,
    createdMs: nowMs,
    amount,
    currency,
    status: 'open',
    reason,
    dueMs,
    held,
    excess,
    excessHeld,
    fee,
    lineId: line.id,
    resolvedMs: null,
  }
  const after: Transaction = {
    ...transaction,
    disputedAmount: transaction.disputedAmount + amount,
    excessDisputedAmount: transaction.excessDisputedAmount + excess,
    ...left,
  }
  return accept({ transaction: after, trailEntry: null, line, ledgerEntry, dispute })
}

/** Returns undefined if nothing was captured and there is no exchange rate. */
function calculateExcessHeld(
  transaction: Transaction,
  part: bigint,
  earlier: readonly Dispute[],
  { merchant, pricing }: OperationContext,
): bigint | undefined {
  const { capturedAmount, currency, totals } = transaction
  if (part === 0n) return 0n
  const amount = transaction.excessDisputedAmount + part
  const value =
    capturedAmount === 0n
      ? exchange(pricing.rates, { currency, amount }, merchant.currency)
      : scale(amount, { numerator: totals.captures.value, denominator: capturedAmount })
  if (value === undefined) return undefined
  const before = total(earlier.filter(({ status }) => status !== 'won').map(one => one.excessHeld))
  // The difference can be negative, because captures after the earlier disputes can lower the average rate.
  return value > before ? value - before : 0n
}

/**
 * Ends a dispute. After a win, the held amount returns to the merchant's balance, and all but the excess can
 * be refunded again. After a loss, the payer keeps the amount. The fee is not returned. The new trail entry
 * states the effect of the whole dispute on the balance.
 */
export function resolveDispute(
  transaction: Transaction,
  dispute: Dispute,
  outcome: DisputeOutcome,
  context: OperationContext,
): Result<DisputeChange> {
  if (dispute.status !== 'open') return reject('dispute_resolved')
  const { line, ledgerEntry } =
    outcome === 'won' ? release(dispute, context) : { line: null, ledgerEntry: surrender(dispute, context) }
  const trailEntry = createTrailEntry(
    transaction,
    {
      kind: 'dispute',
      amount: dispute.amount,
      descriptor: transaction.descriptor,
      balance: (line?.balance ?? 0n) - dispute.held - dispute.fee.total,
      fee: dispute.fee,
      lineId: line?.id ?? dispute.lineId,
      dispute: { id: dispute.id, outcome },
    },
    context,
  )
  const { amount, excess, held, excessHeld } = dispute
  const released = outcome === 'won' ? { amount, excess, value: held - excessHeld } : nothing
  const after: Transaction = {
    ...transaction,
    disputedAmount: transaction.disputedAmount - released.amount,
    excessDisputedAmount: transaction.excessDisputedAmount - released.excess,
    ...addValue(transaction, released.value),
    ...withEntry(transaction, trailEntry),
  }
  const resolved: Dispute = { ...dispute, status: outcome, resolvedMs: context.nowMs }
  return accept({ transaction: after, trailEntry, line, ledgerEntry, dispute: resolved })
}

const nothing = { amount: 0n, excess: 0n, value: 0n }

function release({ id, amount, currency, held, transactionId }: Dispute, context: OperationContext) {
  const from = { account: 'disputes', money: { currency, amount } } as const
  const to = { account: 'merchant', money: { currency: context.merchant.currency, amount: held } } as const
  const movement: Movement = {
    kind: 'dispute-won',
    postings: transfer(from, to),
    amount: from.money,
    fee: noFee,
    description: 'Dispute won',
    disputeId: id,
  }
  return book(movement, transactionId, context)
}

/** A lost dispute does not change the balance, which paid when the dispute was raised. */
function surrender(dispute: Dispute, { merchant, nowMs, nextId }: OperationContext): LedgerEntry {
  const money = { currency: dispute.currency, amount: dispute.amount }
  return {
    id: nextId(),
    merchantId: merchant.id,
    test: merchant.test,
    createdMs: nowMs,
    kind: 'dispute-lost',
    transactionId: dispute.transactionId,
    disputeId: dispute.id,
    lineId: null,
    postings: transfer({ account: 'disputes', money }, { account: 'clearing', money }),
  }
}
