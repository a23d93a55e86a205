import type { Money } from '../money/money.ts'

/** An account that holds transactions and is paid out to one bank account, in one currency. */
export interface Merchant {
  readonly id: string
  /** Public: names the merchant in links and on the payment page, and opens nothing. */
  readonly key: string
  /** Milliseconds since the epoch. */
  readonly createdMs: number
  readonly name: string | null
  /** The funding currency: what its balance is kept in. */
  readonly currency: string
  readonly test: boolean
  readonly email: string
  readonly website: string
  /** The text on the payer's bank statement, if a transaction or a capture has no text of its own. */
  readonly descriptor: string
  readonly company: Company
  readonly bank: Bank | null
  /** A closed merchant accepts nothing new; what it has stays readable. */
  readonly closedMs: number | null
}

export interface Company {
  /** ISO 3166 alpha-2. */
  readonly country: string
  readonly number: string | null
}

export interface Bank {
  /** The IBAN without spaces, in capitals. */
  readonly iban: string
}

/** The fields that a merchant can change. All others are fixed when it is created. */
export const mutableMerchantFields = ['name', 'email', 'descriptor'] as const

export type MutableMerchantField = (typeof mutableMerchantFields)[number]

export type MerchantUpdate = Partial<Pick<Merchant, MutableMerchantField>>

export function updateMerchant(merchant: Merchant, update: MerchantUpdate): Merchant {
  return { ...merchant, ...update }
}

/** The balances of a merchant, in minor units. */
export interface Balances {
  /**
   * The sum of its lines, in its funding currency: captures and won disputes, less refunds, disputes, fees
   * and payouts. The next payout takes all of it. Negative when the merchant owes money.
   */
  readonly available: Money
  /** The amounts that can still be captured or voided, by currency of the transactions. Never zero. */
  readonly pending: readonly Money[]
}

/** A machine identity. It has complete access to the merchants that it is associated with. */
export interface App {
  readonly id: string
  readonly name: string | null
  /** Milliseconds since the epoch. */
  readonly createdMs: number
}

/** One key of an app. An app has two of them while they are rotated. */
export interface AppKey {
  readonly appId: string
  /** See `hashApiKey`. The key itself is nowhere. */
  readonly hash: string
  readonly createdMs: number
  /** The time from which the key is rejected; null for a key that does not expire. */
  readonly expiresMs: number | null
}

export function opens(key: AppKey, nowMs: number): boolean {
  return key.expiresMs === null || nowMs < key.expiresMs
}

/** The text on a bank statement: up to 22 printable characters of ASCII, as in the public API. */
export const descriptorPattern = /^[\x20-\x7E]{0,22}$/

/** The first that says something: an operation's own, its transaction's, its merchant's. */
export function chooseDescriptor(...candidates: readonly (string | null)[]): string {
  return candidates.find(candidate => candidate !== null && candidate !== '') ?? ''
}

/** A person, who is a member of merchants by invitation. */
export interface User {
  readonly id: string
  readonly email: string
  /** Milliseconds since the epoch. */
  readonly createdMs: number
}
