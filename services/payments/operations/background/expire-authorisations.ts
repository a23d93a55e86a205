import { expireTransaction } from '../../domain/transaction/change.ts'
import { listExpiredTransactions } from '../../storage/tables/transactions.ts'
import { lockWithMerchant } from '../accounts/access.ts'
import { operationContext, type Payments } from '../operation.ts'
import { storeChange } from '../transactions/change-transaction.ts'

export const maxExpiredAtOnce = 100

/** @returns the number of expired authorisations; with `maxExpiredAtOnce`, there may be more */
export async function expireAuthorisations(payments: Payments): Promise<number> {
  const { storage, clock } = payments
  const ids = await storage.transaction(tx => listExpiredTransactions(tx, clock.nowMs(), maxExpiredAtOnce))
  for (const id of ids) {
    await storage.transaction(async tx => {
      const locked = await lockWithMerchant(tx, id)
      if (locked === undefined) return
      // Undefined if another process has captured or voided the amount between the query and the lock.
      const change = expireTransaction(locked.transaction, operationContext(payments, locked.merchant))
      if (change !== undefined) storeChange(tx, payments, change, 'transaction.expired')
    })
  }
  return ids.length
}
