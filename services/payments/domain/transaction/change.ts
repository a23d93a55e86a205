import { balancesOf, type EntryKind, type LedgerEntry, type Posting } from '../ledger/ledger.ts'
import type { Line, LineKind } from '../ledger/line.ts'
import type { Merchant } from '../merchant/merchant.ts'
import type { RateTable } from '../money/exchange.ts'
import { type Fee, type FeeTable, noFee } from '../money/fees.ts'
import type { Money } from '../money/money.ts'
import type { TrailDispute, TrailEntry, TrailKind, TrailLimits } from './trail.ts'
import type { Transaction } from './transaction.ts'

/** The context of an operation, besides the transaction. */
export interface OperationContext {
  readonly merchant: Merchant
  readonly pricing: Pricing
  readonly trailLimits: TrailLimits
  /** Milliseconds since the epoch. */
  readonly nowMs: number
  /** A new id at each call. */
  readonly nextId: () => string
}

export interface Pricing {
  readonly fees: FeeTable
  readonly rates: RateTable
}

/** The result of an operation. It is stored as a whole or not at all. */
export interface Change {
  /** The transaction after the operation, with the new entry in its trail. */
  readonly transaction: Transaction
  /** Null if the trail has no entry, as when a dispute begins. */
  readonly trailEntry: TrailEntry | null
  /** Null where the merchant's balance is not touched. */
  readonly line: Line | null
  /** Null where no money moves. */
  readonly ledgerEntry: LedgerEntry | null
}

/** The change of one operation that moved money to or from the merchant's balance. */
export interface Movement {
  readonly kind: EntryKind & LineKind
  readonly postings: readonly Posting[]
  /** The amount in the transaction's currency. */
  readonly amount: Money
  readonly fee: Fee
  readonly description: string
  readonly disputeId: string | null
}

/** A ledger entry and its line. The balance of the line is the amount posted to the merchant. */
export function book(
  movement: Movement,
  transactionId: string | null,
  { merchant, nowMs, nextId }: Pick<OperationContext, 'merchant' | 'nowMs' | 'nextId'>,
): { readonly line: Line; readonly ledgerEntry: LedgerEntry } {
  const shared = {
    merchantId: merchant.id,
    test: merchant.test,
    createdMs: nowMs,
    kind: movement.kind,
    transactionId,
  }
  const line: Line = {
    id: nextId(),
    ...shared,
    balance: balancesOf(movement.postings, 'merchant').get(merchant.currency) ?? 0n,
    fee: movement.fee,
    description: movement.description,
    amount: movement.amount,
  }
  const { disputeId, postings } = movement
  return { line, ledgerEntry: { id: nextId(), ...shared, disputeId, lineId: line.id, postings } }
}

/** Books a movement of a transaction, and adds it to the trail. */
export function bookInTrail(
  transaction: Transaction,
  movement: Movement & { readonly kind: TrailKind },
  descriptor: string,
  context: OperationContext,
): { readonly trailEntry: TrailEntry; readonly line: Line; readonly ledgerEntry: LedgerEntry } {
  const { line, ledgerEntry } = book(movement, transaction.id, context)
  const {
    kind,
    fee,
    amount: { amount },
  } = movement
  const note = { kind, amount, descriptor, balance: line.balance, fee, lineId: line.id }
  return { trailEntry: trailEntryOf(transaction, note, context), line, ledgerEntry }
}

/** The fields of an entry of the trail that depend on the operation. */
export interface TrailNote {
  readonly kind: TrailKind
  readonly amount: bigint
  readonly descriptor: string
  readonly balance?: bigint
  readonly fee?: Fee
  readonly lineId?: string
  readonly dispute?: TrailDispute
}

export function trailEntryOf(
  transaction: Transaction,
  note: TrailNote,
  { nowMs, nextId }: OperationContext,
): TrailEntry {
  return {
    id: nextId(),
    transactionId: transaction.id,
    createdMs: nowMs,
    balance: 0n,
    fee: noFee,
    lineId: null,
    dispute: null,
    ...note,
  }
}
