import type { Fee } from '../money/fees.ts'
import type { DisputeOutcome } from './dispute.ts'

export const trailKinds = ['capture', 'refund', 'void', 'dispute'] as const
export type TrailKind = (typeof trailKinds)[number]

/** One operation on a transaction. An entry never changes. */
export interface TrailEntry {
  readonly id: string
  readonly transactionId: string
  readonly kind: TrailKind
  /** The dispute of an entry of kind `dispute`; null for other kinds. */
  readonly dispute: TrailDispute | null
  readonly createdMs: number
  /** The amount in minor units of the transaction's currency. */
  readonly amount: bigint
  /** The effect on the merchant's balance after fees and exchange, in the merchant's currency. */
  readonly balance: bigint
  readonly fee: Fee
  readonly descriptor: string
  /** The line of the operation; null for a void, which has none. */
  readonly lineId: string | null
}

/** Counts and sums of all entries of a transaction's trail, also of entries that were not read. */
export interface TrailTotals {
  readonly entries: number
  readonly captures: KindTotal
  readonly refunds: KindTotal
  readonly voids: number
}

interface KindTotal {
  readonly count: number
  /** The sum by which the entries changed the balance before fees, as a positive number. */
  readonly value: bigint
}

const nothing: KindTotal = { count: 0, value: 0n }

export const noTrail: TrailTotals = { entries: 0, captures: nothing, refunds: nothing, voids: 0 }

export function addToTotals(totals: TrailTotals, entry: TrailEntry): TrailTotals {
  const { kind, balance, fee } = entry
  const moved = balance + fee.total
  const add = ({ count, value }: KindTotal, more: bigint) => ({
    count: count + 1,
    value: value + more,
  })
  return {
    entries: totals.entries + 1,
    captures: kind === 'capture' ? add(totals.captures, moved) : totals.captures,
    refunds: kind === 'refund' ? add(totals.refunds, -moved) : totals.refunds,
    voids: kind === 'void' ? totals.voids + 1 : totals.voids,
  }
}

/** The maximum number of captures, refunds and voids of one transaction that callers may make. */
export interface TrailLimits {
  readonly captures: number
  readonly refunds: number
  readonly voids: number
}

export interface TrailDispute {
  readonly id: string
  readonly outcome: DisputeOutcome
}
