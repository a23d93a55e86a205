import type { Fee } from '../money/fees.ts'
import type { Money } from '../money/money.ts'

/**
 * The accounts of a merchant's book. A posting adds to an account what its owner is owed: a positive balance
 * of `merchant` is owed to the merchant, a negative one of `clearing` is owed by the processor.
 */
const accounts = [
  /** The merchant's balance, in its own currency only. */
  'merchant',
  /** Money at the card processor. */
  'clearing',
  /** The fees that merchants have paid. */
  'fees',
  /** Money that is held while a dispute runs, in the transaction's currency. */
  'disputes',
  /** Money on its way to, or at, the merchant's bank. */
  'payouts',
  /** The account of exchanges between currencies. */
  'exchange',
] as const
export type Account = (typeof accounts)[number]

export interface Posting {
  readonly account: Account
  readonly currency: string
  /** The amount in minor units; never 0. */
  readonly amount: bigint
}

const entryKinds = ['capture', 'refund', 'dispute', 'dispute-won', 'dispute-lost', 'payout'] as const
export type EntryKind = (typeof entryKinds)[number]

/** Postings that belong together. Their sum is zero in each currency. Never changed. */
export interface LedgerEntry {
  readonly id: string
  readonly merchantId: string
  readonly test: boolean
  /** Milliseconds since the epoch. */
  readonly createdMs: number
  readonly kind: EntryKind
  /** Null for a payout. */
  readonly transactionId: string | null
  /** The dispute of the entry; null if it belongs to none. */
  readonly disputeId: string | null
  /** The line that shows it; null for a lost dispute, which does not touch the merchant's balance. */
  readonly lineId: string | null
  readonly postings: readonly Posting[]
}

/** One side of a transfer. Amounts are not negative. */
interface Side {
  readonly account: Account
  readonly money: Money
}

/**
 * The postings that take `from` and give `to`. Between two currencies they go through `exchange`, so that
 * each currency balances by itself. In one currency both amounts must be the same.
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

/** The postings of a fee that the merchant pays. */
export function chargeFee(currency: string, amount: bigint): readonly Posting[] {
  const money = { currency, amount }
  return transfer({ account: 'merchant', money }, { account: 'fees', money })
}

function post(account: Account, currency: string, amount: bigint): readonly Posting[] {
  return amount === 0n ? [] : [{ account, currency, amount }]
}

/** The sum of the postings to an account, by currency. */
export function sumAccount(postings: Iterable<Posting>, account: Account): ReadonlyMap<string, bigint> {
  return sumByCurrency([...postings].filter(posting => posting.account === account))
}

/** Currencies whose postings do not sum to zero, with that sum. Empty for an entry that balances. */
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
