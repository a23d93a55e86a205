import type { Line } from '../../domain/ledger/line.ts'
import { payOut } from '../../domain/ledger/payout.ts'
import { presentLine } from '../../domain/present.ts'
import { isRefused, refuse } from '../../domain/refusals.ts'
import { savePayout } from '../../storage/changes.ts'
import type { Tx } from '../../storage/storage.ts'
import { balanceOf } from '../../storage/tables/ledger.ts'
import { lockMerchant } from '../../storage/tables/merchants.ts'
import { hasPayout, insertPayout, listMerchantsToPay } from '../../storage/tables/payouts.ts'
import { announce } from '../announce.ts'
import { nextId, type Outcome, type Payments, perform } from '../operation.ts'

/** How many merchants one look finds. */
const maxMerchantsAtOnce = 100

/**
 * Sends a merchant's whole balance to its bank account, as a line and a ledger entry, once a period. A
 * merchant that is closed is paid what it still has.
 *
 * @param period any name, such as a date
 * @returns the line; refused as `conflict` when the merchant was paid for the period already
 */
export async function payOutMerchant(
  tx: Tx,
  payments: Payments,
  { merchantId, period }: { readonly merchantId: string; readonly period: string },
): Outcome<Line> {
  const merchant = await lockMerchant(tx, merchantId)
  if (merchant === undefined) return refuse('not_found')
  if (await hasPayout(tx, merchantId, period)) {
    return refuse('conflict', `The merchant was paid for ${period} already.`)
  }
  const balance = await balanceOf(tx, merchantId, merchant.currency)
  const context = { merchant, nowMs: payments.clock.nowMs(), nextId: () => nextId(payments) }
  const payout = payOut(balance, null, context)
  if (isRefused(payout)) return payout
  const { line } = payout
  savePayout(tx, payout)
  await insertPayout(tx, { merchantId, period, lineId: line.id })
  announce(tx, payments, {
    ...{ type: 'payout.created', merchantId, subjectId: line.id, data: { line: presentLine(line) } },
  })
  return line
}

/**
 * Pays all merchants with a positive balance, each in a separate transaction. After an interruption the next
 * run for the period pays the rest. Any number of processes may do this at once.
 *
 * @param onPaid called with each payout after its commit
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
      const line = await perform(payments, tx => payOutMerchant(tx, payments, { merchantId, period }))
      // Refused is what another process has paid meanwhile, or a refund has taken.
      if (!isRefused(line)) onPaid(line)
    }
  }
}

const dayMs = 24 * 60 * 60 * 1000

/** The period of a day: its date in UTC. */
export function payoutPeriod(nowMs: number): string {
  return new Date(nowMs).toISOString().slice(0, 10)
}

/** @param minuteOfDay when payouts are made, in UTC; null for never */
export function isPayoutTime(nowMs: number, minuteOfDay: number | null): boolean {
  return minuteOfDay !== null && nowMs % dayMs >= minuteOfDay * 60_000
}
