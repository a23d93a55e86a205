import { isId } from '../../domain/ids.ts'
import { refuse } from '../../domain/refusals.ts'
import {
  type Dispute,
  type DisputeOutcome,
  raiseDispute,
  resolveDispute,
} from '../../domain/transaction/dispute.ts'
import type { Tx } from '../../storage/storage.ts'
import { disputesOfTransactions, findDispute } from '../../storage/tables/disputes.ts'
import { findMerchant } from '../../storage/tables/merchants.ts'
import { lockTransaction } from '../../storage/tables/transactions.ts'
import { contextOf, type Outcome, type Payments } from '../operation.ts'
import { saveDispute } from './save-dispute.ts'

export interface DisputeRequest {
  readonly transactionId: string
  readonly amount: bigint
  readonly reason: string | null
  /** The time until which the merchant can answer it, if that is known. */
  readonly dueMs: number | null
}

/** Records a dispute that was not reported by the processor, for any merchant. */
export async function raiseDisputeByHand(
  tx: Tx,
  payments: Payments,
  { transactionId, ...input }: DisputeRequest,
): Outcome<Dispute> {
  const cause = await lockCause(tx, transactionId)
  if (cause === undefined) return refuse('not_found', 'There is no such transaction.')
  const earlier = await disputesOfTransactions(tx, [transactionId])
  const change = raiseDispute(cause.transaction, { ...input, earlier }, contextOf(payments, cause.merchant))
  return saveDispute(tx, payments, change)
}

export async function resolveDisputeByHand(
  tx: Tx,
  payments: Payments,
  { disputeId, outcome }: { readonly disputeId: string; readonly outcome: DisputeOutcome },
): Outcome<Dispute> {
  const found = isId(disputeId) ? await findDispute(tx, disputeId) : undefined
  const cause = found && (await lockCause(tx, found.transactionId))
  // The dispute is read again, because it may have ended during the wait for the lock.
  const dispute = cause && (await findDispute(tx, disputeId))
  if (cause === undefined || dispute === undefined) return refuse('not_found', 'There is no such dispute.')
  const context = contextOf(payments, cause.merchant)
  const change = resolveDispute(cause.transaction, dispute, outcome, context)
  return saveDispute(tx, payments, change)
}

async function lockCause(tx: Tx, transactionId: string) {
  const transaction = isId(transactionId) ? await lockTransaction(tx, transactionId) : undefined
  const merchant = transaction && (await findMerchant(tx, transaction.merchantId))
  return transaction && merchant && { transaction, merchant }
}
