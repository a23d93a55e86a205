import type { Refused } from '../refusals.ts'
import { type Change, type OperationContext, trailEntryOf } from './change.ts'
import { checkCurrency, checkPending, checkTrail, type Transaction, withEntry } from './transaction.ts'

export interface VoidInput {
  readonly amount: bigint
  /** A guard: must be the transaction's. */
  readonly currency: string | null
}

/** Cancels a part of the pending amount, or all of it. No money moves. */
export function voidTransaction(
  transaction: Transaction,
  { amount, currency }: VoidInput,
  context: OperationContext,
): Change | Refused {
  const refused =
    checkCurrency(transaction, currency) ??
    checkPending(transaction, amount, 'voided', context.nowMs) ??
    checkTrail(transaction, 'voids', context.trailLimits)
  return refused ?? cancel(transaction, amount, context)
}

export function hasExpired(transaction: Transaction, nowMs: number): boolean {
  return transaction.pendingAmount > 0n && nowMs >= transaction.expiresMs
}

/** Voids the pending amount of an expired authorisation. Returns undefined if nothing is pending. */
export function expireTransaction(transaction: Transaction, context: OperationContext): Change | undefined {
  if (!hasExpired(transaction, context.nowMs)) return undefined
  return cancel(transaction, transaction.pendingAmount, context)
}

function cancel(transaction: Transaction, amount: bigint, context: OperationContext): Change {
  const note = { kind: 'void', amount, descriptor: transaction.descriptor } as const
  const trailEntry = trailEntryOf(transaction, note, context)
  const after: Transaction = {
    ...transaction,
    pendingAmount: transaction.pendingAmount - amount,
    voidedAmount: transaction.voidedAmount + amount,
    ...withEntry(transaction, trailEntry),
  }
  return { transaction: after, trailEntry, line: null, ledgerEntry: null }
}
