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

const maxMerchantsAtOnce = 100

/**
 * Books the payout of a merchant's balance, up to `maxAmount`, to the bank account, once for each period. A
 * closed merchant is paid out too.
 *
 * @param period any name, such as a date
 * @returns the line; a rejection as `conflict` if the merchant was paid out for the period already
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
 * Pays out all merchants with a bank account and a balance above zero, each in a separate transaction. After
 * an interruption, the next call for the period pays the rest. Several processes may run it at the same time.
 *
 * @param onPaid called after the commit of each payout
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
      // After a rejection there is nothing to pay: another process has paid the merchant, or a refund has
      // reduced the balance.
      if (line.ok) onPaid(line.value)
    }
  }
}

const dayMs = 24 * 60 * 60 * 1000

/** Returns the name of the period at `nowMs`: the date in UTC, such as `2026-07-01`. */
export function payoutPeriod(nowMs: number): string {
  return new Date(nowMs).toISOString().slice(0, 10)
}

/** @param minuteOfDay the time of payouts in UTC; null disables payouts */
export function isPayoutTime(nowMs: number, minuteOfDay: number | null): boolean {
  return minuteOfDay !== null && nowMs % dayMs >= minuteOfDay * 60_000
}
