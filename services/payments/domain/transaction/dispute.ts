import { chargeFee, type LedgerEntry, transfer } from '../ledger/ledger.ts'
import { exchange } from '../money/exchange.ts'
import { calculateFee, type Fee, noFee } from '../money/fees.ts'
import { fitsJson, scale } from '../money/money.ts'
import { addValue, takeValue } from '../money/refundable-value.ts'
import { accept, type Result, reject, rejectField } from '../rejections.ts'
import {
  book,
  createTrailEntry,
  type Movement,
  type OperationContext,
  type TransactionChange,
} from './change.ts'
import { refundableAmount, type Transaction, withEntry } from './transaction.ts'

/** A claim of a payer's bank for money that was captured, such as a chargeback. */
export interface Dispute {
  readonly id: string
  readonly merchantId: string
  readonly transactionId: string
  /** Milliseconds since the epoch. */
  readonly createdMs: number
  /** The amount in minor units of the transaction's currency. */
  readonly amount: bigint
  readonly currency: string
  readonly status: DisputeStatus
  readonly reason: string | null
  /** The time until which the merchant can answer it, if that is known. */
  readonly dueMs: number | null
  /** The amount held from the merchant's balance, without the fee, in minor units of its currency. */
  readonly held: bigint
  /** The part of the amount above what could be refunded when it was raised. */
  readonly excess: bigint
  /** The part of `held` that is for the excess. */
  readonly excessHeld: bigint
  /** The cost of the dispute itself, won or lost. */
  readonly fee: Fee
  /** The line that took it from the balance. */
  readonly lineId: string
  /** When it was won or lost. */
  readonly resolvedMs: number | null
}

export const disputeStatuses = ['open', 'won', 'lost'] as const
export type DisputeStatus = (typeof disputeStatuses)[number]
export const disputeOutcomes = ['won', 'lost'] as const satisfies readonly DisputeStatus[]
export type DisputeOutcome = (typeof disputeOutcomes)[number]

interface DisputeInput {
  /** One derived from the processor's name of the dispute; without it, the dispute gets a new one. */
  readonly id?: string
  readonly amount: bigint
  readonly reason: string | null
  readonly dueMs: number | null
  /** All disputes of the transaction before: what parts cost and take is rounded for all of them together. */
  readonly earlier: readonly Dispute[]
}

export interface DisputeChange extends TransactionChange {
  readonly dispute: Dispute
}

/**
 * Opens a dispute: its amount leaves the merchant's balance, with the fee, and is held until the dispute is
 * won or lost. The trail gets an entry only then.
 *
 * The payer's bank does not know of refunds, so a dispute may exceed the refundable and the captured amount.
 * It is booked in full: the excess leaves the balance too, which may become negative, and cannot be refunded
 * after a win. The excess converts at the average rate of the captures, or at the present rate if there are
 * none.
 */
export function raiseDispute(
  transaction: Transaction,
  input: DisputeInput,
  context: OperationContext,
): Result<DisputeChange> {
  const { merchant, pricing, nowMs, nextId } = context
  const { id = nextId(), amount, reason, dueMs, earlier } = input
  if (amount < 1n) return rejectField('amount', 'too_small', `${amount} is below 1`)
  const refundable = refundableAmount(transaction)
  const excess = amount > refundable ? amount - refundable : 0n
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

/**
 * Returns the value that is held for a further part above the refundable amount. Undefined if nothing was
 * captured and there is no rate.
 */
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
  // Captures in between can lower the average rate.
  return value > before ? value - before : 0n
}

function total(values: readonly bigint[]): bigint {
  return values.reduce((sum, value) => sum + value, 0n)
}

/**
 * Ends a dispute. If it is won, the held amount returns to the merchant's balance and can be refunded again;
 * if it is lost, the payer keeps it. The fee stays paid. The trail's entry has the effect of the whole
 * dispute on the balance.
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
