import type { Change } from '../domain/change.ts'
import type { DisputeChange } from '../domain/dispute.ts'
import type { Payout } from '../domain/payout.ts'
import { insertDispute, updateDispute } from './disputes.ts'
import { postLedger } from './ledger.ts'
import { insertLine } from './lines.ts'
import type { Tx } from './storage.ts'
import { appendTrail } from './trail.ts'
import { updateAmounts } from './transactions.ts'

/**
 * Stores what an operation did to a transaction that the caller has locked. The line comes last, since it holds
 * the merchant, which other transactions of the same merchant wait for. All statements go out together.
 */
export async function saveChange(tx: Tx, change: Change): Promise<void> {
  const { transaction, trailEntry, ledgerEntry, line } = change
  await Promise.all([
    updateAmounts(tx, transaction),
    trailEntry && appendTrail(tx, trailEntry, transaction.totals.entries - 1),
    ledgerEntry && postLedger(tx, ledgerEntry),
    line && insertLine(tx, line),
  ])
}

/** As `saveChange`, with the dispute, which is new when it is open. */
export async function saveDisputeChange(tx: Tx, change: DisputeChange): Promise<void> {
  await saveChange(tx, change)
  if (change.dispute.status === 'open') await insertDispute(tx, change.dispute)
  else await updateDispute(tx, change.dispute)
}

/** Of a merchant that the caller has locked before it read the balance. */
export async function savePayout(tx: Tx, { ledgerEntry, line }: Payout): Promise<void> {
  await postLedger(tx, ledgerEntry)
  await insertLine(tx, line)
}
