import type { DisputeOutcome } from './dispute.ts'
import type { Fee } from './fees.ts'

export const trailKinds = ['capture', 'refund', 'void', 'dispute'] as const
export type TrailKind = (typeof trailKinds)[number]

/** One thing that was done to a transaction. The trail is in the order of time and never changes. */
export interface TrailEntry {
  readonly id: string
  readonly transactionId: string
  readonly kind: TrailKind
  /** Of an entry of kind `dispute`; null for others. */
  readonly dispute: TrailDispute | null
  /** Milliseconds since the epoch. */
  readonly createdMs: number
  /** In minor units of the transaction's currency. */
  readonly amount: bigint
  /** The effect on the merchant's balance after fees and exchange, in minor units of its currency. */
  readonly balance: bigint
  readonly fee: Fee
  readonly descriptor: string
  /** The line with that effect; null for a void, which has none. */
  readonly lineId: string | null
}

export interface TrailDispute {
  readonly id: string
  readonly outcome: DisputeOutcome
}
