import type { Fee } from '../money/fees.ts'
import type { Money } from '../money/money.ts'

/**
 * The accounts of a merchant's book. The sign of a balance states who owes: a positive balance of `merchant`
 * is owed to the merchant, and a negative balance of `clearing` is owed by the processor.
 */
export type Account =
  /** The merchant's balance, only in the merchant's currency. */
  | 'merchant'
  /** Money at the card processor. */
  | 'clearing'
  /** The fees that merchants have paid. */
  | 'fees'
  /** Money that is held until a dispute is won or lost, in the transaction's currency. */
  | 'disputes'
  /** Money on its way to, or at, the merchant's bank. */
  | 'payouts'
  /** The other side of each exchange, so that the postings of each currency sum to zero. */
  | 'exchange'

export interface Posting {
  readonly account: Account
  readonly currency: string
  /** The amount in minor units; never 0. */
  readonly amount: bigint
}

export type EntryKind = 'capture' | 'refund' | 'dispute' | 'dispute-won' | 'dispute-lost' | 'payout'

/** The postings of one operation. Their sum is zero in each currency. A stored entry never changes. */
export interface LedgerEntry {
  readonly id: string
  readonly merchantId: string
  readonly test: boolean
  readonly createdMs: number
  readonly kind: EntryKind
  /** Null for a payout. */
  readonly transactionId: string | null
  /** Null if the entry belongs to no dispute. */
  readonly disputeId: string | null
  /** The line with the effect on the merchant's balance; null for a lost dispute, which has none. */
  readonly lineId: string | null
  readonly postings: readonly Posting[]
}

/** One side of a transfer. Its amount is not negative. */
interface Side {
  readonly account: Account
  readonly money: Money
}

/**
 * Returns the postings that subtract `from` from its account and add `to` to its account. Between two
 * currencies, the postings go through `exchange`, so that each currency sums to zero. Within one currency,
 * both amounts must be equal.
 */
export function transfer(from: Side, to: Side): readonly Posting[] {
  const given = post(from.account, from.money.currency, -from.money.amount)
  const taken = post(to.account, to.money.currency, to.money.amount)
  if (from.money.currency === to.money.currency) return [...given, ...taken]
  return [
    ...given,
    ...post('exchange', from.money.currency, from.money.amount),
    ...post('exchange', to.money.currency, -to.money.amount),
    ...taken,
  ]
}

export function chargeFee(currency: string, amount: bigint): readonly Posting[] {
  const money = { currency, amount }
  return transfer({ account: 'merchant', money }, { account: 'fees', money })
}

function post(account: Account, currency: string, amount: bigint): readonly Posting[] {
  return amount === 0n ? [] : [{ account, currency, amount }]
}

export function sumAccount(postings: Iterable<Posting>, account: Account): ReadonlyMap<string, bigint> {
  return sumByCurrency([...postings].filter(posting => posting.account === account))
}

/** Returns the currencies whose postings do not sum to zero, each with its sum. Empty for a valid entry. */
export function imbalances(postings: Iterable<Posting>): ReadonlyMap<string, bigint> {
  return new Map([...sumByCurrency(postings)].filter(([, sum]) => sum !== 0n))
}

function sumByCurrency(postings: Iterable<Posting>): ReadonlyMap<string, bigint> {
  const sums = new Map<string, bigint>()
  for (const { currency, amount } of postings) sums.set(currency, (sums.get(currency) ?? 0n) + amount)
  return sums
}

export const lineKinds = ['capture', 'refund', 'dispute', 'dispute-won', 'payout'] as const
export type LineKind = (typeof lineKinds)[number]

/**
 * A change of a merchant's balance, as the API shows it. Each line belongs to one ledger entry and never
 * changes. The balance of a merchant is the sum of its lines.
 */
export interface Line {
  readonly id: string
  readonly merchantId: string
  readonly test: boolean
  readonly createdMs: number
  readonly kind: LineKind
  /** The sum of the postings to the account `merchant`, in minor units of the merchant's currency. */
  readonly balance: bigint
  readonly fee: Fee
  readonly description: string
  /** Null for a payout. */
  readonly transactionId: string | null
  /** The amount in the transaction's currency; for a payout, in the merchant's. Never negative. */
  readonly amount: Money
}
