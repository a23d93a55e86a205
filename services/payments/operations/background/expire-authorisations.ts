import { expireTransaction } from '../../domain/transaction/void.ts'
import { findMerchant } from '../../storage/tables/merchants.ts'
import { listExpiredTransactions, lockTransaction } from '../../storage/tables/transactions.ts'
import { contextOf, type Payments } from '../operation.ts'
import { recordChange } from '../transactions/change-transaction.ts'

/** How many authorisations one sweep looks at. */
export const maxExpiredAtOnce = 100

/**
 * Voids what is still pending of authorisations whose time is over, each in a transaction of its own.
 *
 * @returns how many there were: at `maxExpiredAtOnce` there may be more
 */
export async function expireAuthorisations(payments: Payments): Promise<number> {
  const { storage, clock } = payments
  const ids = await storage.transaction(tx => listExpiredTransactions(tx, clock.nowMs(), maxExpiredAtOnce))
  for (const id of ids) {
    await storage.transaction(async tx => {
      const transaction = await lockTransaction(tx, id)
      const merchant = transaction && (await findMerchant(tx, transaction.merchantId))
      if (transaction === undefined || merchant === undefined) return
      // Before the lock, another transaction may have captured or voided it.
      const change = expireTransaction(transaction, contextOf(payments, merchant))
      if (change !== undefined) recordChange(tx, payments, change, 'transaction.expired')
    })
  }
  return ids.length
}
