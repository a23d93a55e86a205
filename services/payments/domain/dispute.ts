import { book, type Change, type Movement, type OperationContext, trailEntryOf } from './change.ts'
import { type Fee, feeOf, noFee } from './fees.ts'
import { chargeFee, type LedgerEntry, transfer } from './ledger.ts'
import { type Refused, refuse } from './refusals.ts'
import { checkRefundable, shareOfValue, type Transaction } from './transaction.ts'

/** A claim of a payer's bank for money that was captured, such as a chargeback. */
export interface Dispute {
  readonly id: string
  readonly merchantId: string
  readonly transactionId: string
  /** Milliseconds since the epoch. */
  readonly createdMs: number
  /** In minor units of the transaction's currency. */
  readonly amount: bigint
  readonly currency: string
  readonly status: DisputeStatus
  readonly reason: string | null
  /** Until when the merchant can answer it, if that is known. */
  readonly dueMs: number | null
  /** What was taken from the merchant's balance for it, without the fee, in minor units of its currency. */
  readonly held: bigint
  /** What the dispute itself costs, won or lost. */
  readonly fee: Fee
  /** The line that took it from the balance. */
  readonly lineId: string
  /** When it was won or lost. */
  readonly resolvedMs: number | null
}

export const disputeStatuses = ['open', 'won', 'lost'] as const
export type DisputeStatus = (typeof disputeStatuses)[number]
export type DisputeOutcome = Exclude<DisputeStatus, 'open'>

export interface DisputeInput {
  /** One derived from the processor's name of the dispute; without it, the dispute gets a new one. */
  readonly id?: string
  readonly amount: bigint
  readonly reason: string | null
  readonly dueMs: number | null
}

export interface DisputeChange extends Change {
  readonly dispute: Dispute
}

/**
 * A dispute begins: what it is about leaves the merchant's balance, with the fee, and is held until the
 * dispute is won or lost. The trail tells of it only then, for its entries are won or lost. Refused beyond
 * what can still be refunded.
 */
export function raiseDispute(
  transaction: Transaction,
  input: DisputeInput,
  context: OperationContext,
): DisputeChange | Refused {
  const { merchant, pricing, nowMs, nextId } = context
  const { id = nextId(), amount, reason, dueMs } = input
  const refused = checkRefundable(transaction, amount, 'disputed')
  if (refused !== undefined) return refused
  const { currency } = transaction
  const held = shareOfValue(transaction, amount)
  const fee = feeOf(pricing.fees, 'dispute', merchant.currency, held)
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
    fee,
    lineId: line.id,
    resolvedMs: null,
  }
  const after: Transaction = {
    ...transaction,
    disputedAmount: transaction.disputedAmount + amount,
    refundableValue: transaction.refundableValue - held,
  }
  return { transaction: after, trailEntry: null, line, ledgerEntry, dispute }
}

/**
 * A dispute ends. Won, what was held returns to the merchant's balance and can be refunded again; lost, it
 * goes to the payer. The fee stays paid. The trail's entry has the effect of the whole dispute on the
 * balance.
 */
export function resolveDispute(
  transaction: Transaction,
  dispute: Dispute,
  outcome: DisputeOutcome,
  context: OperationContext,
): DisputeChange | Refused {
  if (dispute.status !== 'open') return refuse('dispute_resolved')
  const { line, ledgerEntry } =
    outcome === 'won' ? release(dispute, context) : { line: null, ledgerEntry: surrender(dispute, context) }
  const trailEntry = trailEntryOf(
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
  const after: Transaction = {
    ...transaction,
    disputedAmount: transaction.disputedAmount - (outcome === 'won' ? dispute.amount : 0n),
    refundableValue: transaction.refundableValue + (outcome === 'won' ? dispute.held : 0n),
    trail: [...transaction.trail, trailEntry],
  }
  const resolved: Dispute = { ...dispute, status: outcome, resolvedMs: context.nowMs }
  return { transaction: after, trailEntry, line, ledgerEntry, dispute: resolved }
}

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

/** The merchant's balance is not touched by a loss, since it was when the dispute began. */
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
