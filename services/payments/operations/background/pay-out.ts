import type { Line } from '../../domain/ledger/ledger.ts'
import { payOut } from '../../domain/ledger/payout.ts'
import { presentLine } from '../../domain/present.ts'
import { accept, type Result, reject } from '../../domain/rejections.ts'
import { savePayout } from '../../storage/changes.ts'
import { type Tx, transact } from '../../storage/storage.ts'
import { readBalance } from '../../storage/tables/ledger.ts'
import { lockMerchant } from '../../storage/tables/merchants.ts'
import { hasPayout, insertPayout, listMerchantsToPay } from '../../storage/tables/payouts.ts'
import { emitEvent } from '../events.ts'
import { generateId, type Payments } from '../operation.ts'

/** The most merchants that one query returns. */
const maxMerchantsAtOnce = 100

/**
 * Pays a merchant's whole balance to its bank account, once a period, as a line and a ledger entry. A closed
 * merchant gets its remaining balance.
 *
 * @param period any name, such as a date
 * @returns the line; rejected as `conflict` when the merchant was already paid for the period
 */
export async function payOutMerchant(
  tx: Tx,
  payments: Payments,
  { merchantId, period }: { readonly merchantId: string; readonly period: string },
): Promise<Result<Line>> {
  const merchant = await lockMerchant(tx, merchantId)
  if (merchant === undefined) return reject('not_found')
  if (await hasPayout(tx, merchantId, period)) {
    return reject('conflict', `The merchant was paid for ${period} already.`)
  }
  const balance = await readBalance(tx, merchantId, merchant.currency)
  const context = { merchant, nowMs: payments.clock.nowMs(), nextId: () => generateId(payments) }
  const payout = payOut(balance, null, context)
  if (!payout.ok) return payout
  const { line } = payout.value
  savePayout(tx, payout.value)
  await insertPayout(tx, { merchantId, period, lineId: line.id })
  emitEvent(tx, payments, {
    type: 'payout.created',
    merchantId,
    subjectId: line.id,
    data: { line: presentLine(line) },
  })
  return accept(line)
}

/**
 * Pays all merchants that have a balance to be paid, each in a separate transaction. If a run is interrupted,
 * the next run for the period pays the rest. Any number of processes may run it at once.
 *
 * @param onPaid called for each payout after its commit
 */
export async function payOutAll(
  payments: Payments,
  period: string,
  onPaid: (line: Line) => void,
): Promise<void> {
  const { storage } = payments
  const find = (afterId: string | null): Promise<readonly string[]> =>
    storage.transaction(tx => listMerchantsToPay(tx, period, afterId, maxMerchantsAtOnce))
  for (let ids = await find(null); ids.length > 0; ids = await find(ids.at(-1) ?? null)) {
    for (const merchantId of ids) {
      const line = await transact(payments.storage, tx =>
        payOutMerchant(tx, payments, { merchantId, period }),
      )
      // A rejection means that another process has paid the merchant, or that a refund has reduced the balance.
      if (line.ok) onPaid(line.value)
    }
  }
}

const dayMs = 24 * 60 * 60 * 1000

/** Returns the period of a day: its date in UTC. */
export function payoutPeriod(nowMs: number): string {
  return new Date(nowMs).toISOString().slice(0, 10)
}

/** @param minuteOfDay the time of payouts in UTC; null disables payouts */
export function isPayoutTime(nowMs: number, minuteOfDay: number | null): boolean {
  return minuteOfDay !== null && nowMs % dayMs >= minuteOfDay * 60_000
}
