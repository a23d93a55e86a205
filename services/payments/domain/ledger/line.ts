import type { Fee } from '../money/fees.ts'
import type { Money } from '../money/money.ts'

export const lineKinds = ['capture', 'refund', 'dispute', 'dispute-won', 'payout'] as const
export type LineKind = (typeof lineKinds)[number]

/**
 * An entry of the history that makes up a merchant's balance. Derived from one ledger entry; never changed.
 */
export interface Line {
  readonly id: string
  readonly merchantId: string
  readonly test: boolean
  /** Milliseconds since the epoch. */
  readonly createdMs: number
  readonly kind: LineKind
  /** The effect on the merchant's balance, in minor units of its currency: the sum of its postings there. */
  readonly balance: bigint
  readonly fee: Fee
  readonly description: string
  /** Null for a payout. */
  readonly transactionId: string | null
  /** The captured, refunded, disputed or paid out amount, in its own currency. Never negative. */
  readonly amount: Money
}
