import type { Payout } from '../domain/ledger/payout.ts'
import type { TransactionChange } from '../domain/transaction/change.ts'
import type { DisputeChange } from '../domain/transaction/dispute.ts'
import type { Tx } from './storage.ts'
import { insertDispute, updateDispute } from './tables/disputes.ts'
import { postLedger } from './tables/ledger.ts'
import { insertLine } from './tables/lines.ts'
import { appendTrail } from './tables/trail.ts'
import { updateAmounts } from './tables/transactions.ts'

/**
 * Stores the result of an operation. The caller must have locked the transaction. The line is stored last,
 * because storing a line locks the merchant's lists, for which other operations of the same merchant wait.
 */
export function saveChange(tx: Tx, change: TransactionChange): void {
  const { transaction, trailEntry, ledgerEntry, line } = change
  updateAmounts(tx, transaction)
  if (trailEntry !== null) appendTrail(tx, trailEntry, transaction.totals.entries - 1)
  if (ledgerEntry !== null) postLedger(tx, ledgerEntry)
  if (line !== null) insertLine(tx, line)
}

/** Stores a change as `saveChange` does, and the dispute: inserts an open dispute, updates a resolved one. */
export async function saveDisputeChange(tx: Tx, change: DisputeChange): Promise<void> {
  saveChange(tx, change)
  if (change.dispute.status === 'open') await insertDispute(tx, change.dispute)
  else await updateDispute(tx, change.dispute)
}

/** Stores a payout. The caller must have locked the merchant before it read the balance. */
export function savePayout(tx: Tx, { ledgerEntry, line }: Payout): void {
  postLedger(tx, ledgerEntry)
  insertLine(tx, line)
}
