import { isId } from '../../domain/ids.ts'
import { presentDispute } from '../../domain/present.ts'
import { accept, type Result, reject } from '../../domain/rejections.ts'
import {
  type Dispute,
  type DisputeChange,
  type DisputeOutcome,
  raiseDispute,
  resolveDispute,
} from '../../domain/transaction/dispute.ts'
import { saveDisputeChange } from '../../storage/changes.ts'
import type { Tx } from '../../storage/storage.ts'
import { disputesOfTransactions, findDispute } from '../../storage/tables/disputes.ts'
import { lockWithMerchant } from '../accounts/access.ts'
import { emitEvent } from '../events.ts'
import { operationContext, type Payments } from '../operation.ts'

interface DisputeRequest {
  readonly transactionId: string
  readonly amount: bigint
  readonly reason: string | null
  /** The end of the time in which the merchant can answer; null if that time is not known. */
  readonly dueMs: number | null
}

/** Records a dispute that the processor has not reported. An operator does this, for any merchant. */
export async function raiseDisputeByHand(
  tx: Tx,
  payments: Payments,
  { transactionId, ...input }: DisputeRequest,
): Promise<Result<Dispute>> {
  const cause = isId(transactionId) ? await lockWithMerchant(tx, transactionId) : undefined
  if (cause === undefined) return reject('not_found', 'The transaction was not found.')
  const earlier = await disputesOfTransactions(tx, [transactionId])
  const change = raiseDispute(
    cause.transaction,
    { ...input, earlier },
    operationContext(payments, cause.merchant),
  )
  return saveDispute(tx, payments, change)
}

export async function resolveDisputeByHand(
  tx: Tx,
  payments: Payments,
  { disputeId, outcome }: { readonly disputeId: string; readonly outcome: DisputeOutcome },
): Promise<Result<Dispute>> {
  const found = isId(disputeId) ? await findDispute(tx, disputeId) : undefined
  const cause = found && (await lockWithMerchant(tx, found.transactionId))
  // Reads the dispute again, because it may have been resolved during the wait for the lock.
  const dispute = cause && (await findDispute(tx, disputeId))
  if (cause === undefined || dispute === undefined) return reject('not_found', 'The dispute was not found.')
  const context = operationContext(payments, cause.merchant)
  const change = resolveDispute(cause.transaction, dispute, outcome, context)
  return saveDispute(tx, payments, change)
}

/** Stores a dispute and its event. The caller must have locked the transaction. */
export async function saveDispute(
  tx: Tx,
  payments: Payments,
  change: Result<DisputeChange>,
): Promise<Result<Dispute>> {
  if (!change.ok) return change
  await saveDisputeChange(tx, change.value)
  const { dispute } = change.value
  const { merchantId, transactionId: subjectId } = dispute
  const type = dispute.status === 'open' ? 'dispute.raised' : (`dispute.${dispute.status}` as const)
  emitEvent(tx, payments, { type, merchantId, subjectId, data: { dispute: presentDispute(dispute) } })
  return accept(dispute)
}
