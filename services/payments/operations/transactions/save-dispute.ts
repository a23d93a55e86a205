import { presentDispute } from '../../domain/present.ts'
import { isRefused, type Refused } from '../../domain/refusals.ts'
import type { Dispute, DisputeChange } from '../../domain/transaction/dispute.ts'
import { saveDisputeChange } from '../../storage/changes.ts'
import type { Tx } from '../../storage/storage.ts'
import { announce } from '../announce.ts'
import type { Outcome, Payments } from '../operation.ts'

/** Stores the new state of a dispute and its event. The caller has locked the transaction. */
export async function saveDispute(
  tx: Tx,
  payments: Payments,
  change: DisputeChange | Refused,
): Outcome<Dispute> {
  if (isRefused(change)) return change
  await saveDisputeChange(tx, change)
  const { dispute } = change
  const { merchantId, transactionId: subjectId } = dispute
  const type = dispute.status === 'open' ? 'dispute.raised' : (`dispute.${dispute.status}` as const)
  announce(tx, payments, { type, merchantId, subjectId, data: { dispute: presentDispute(dispute) } })
  return dispute
}
