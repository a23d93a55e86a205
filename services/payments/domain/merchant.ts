import {
  booleanFlag,
  country,
  currency,
  descriptor,
  displayText,
  email,
  iban,
  webAddress,
} from './input/fields.ts'
import {
  invalidValue,
  optionalField,
  type Reader,
  type RecordValues,
  reader,
  record,
  requiredField,
  withDefault,
} from './input/record.ts'
import type { Money } from './money/money.ts'

/** The maximum length of the name of an app or a merchant, and of a company number, in characters. */
export const maxNameCharacters = 100

const name = displayText(maxNameCharacters)

const account = record({ iban: optionalField(iban) })

/** Reads the bank account of a merchant. An object without an IBAN becomes null. */
const bank: Reader<{ readonly iban: string } | null> = reader(
  account.schema,
  (value, place) => {
    const found = account(value, place)
    if (found === invalidValue) return invalidValue
    return found.iban === null ? null : { iban: found.iban }
  },
  record({ iban: requiredField(iban) }).answerSchema,
)

/**
 * The fields of a merchant that a caller sets. The types, the parsers, the answers and the OpenAPI document
 * are derived from them. A new field is a line here, one in `exampleMerchantInput`, one in
 * `storage/tables/merchants.ts`, a migration, and one in the Merchant of `crds/`.
 */
export const merchantFields = {
  name: optionalField(name),
  test: withDefault(booleanFlag, false),
  email: requiredField(email),
  website: requiredField(webAddress),
  /** The text on the payer's bank statement, for transactions and captures without their own descriptor. */
  descriptor: requiredField(descriptor),
  company: requiredField(record({ country: requiredField(country), number: optionalField(name) })),
  bank: optionalField(bank),
  /** The funding currency: the currency of the balance and of the payouts. */
  currency: requiredField(currency),
}

export type MerchantInput = RecordValues<typeof merchantFields>

export const merchantFieldNames = Object.keys(merchantFields) as readonly (keyof MerchantInput)[]

/** The fields that an update of a merchant can change. All others stay as they were at the creation. */
export const mutableMerchantFields = [
  'name',
  'email',
  'descriptor',
] as const satisfies readonly (keyof MerchantInput)[]

export type MerchantUpdate = Partial<Pick<MerchantInput, (typeof mutableMerchantFields)[number]>>

export const exampleMerchantInput: MerchantInput = {
  name: 'Coffee & Jane',
  currency: 'DKK',
  test: true,
  email: 'jane@example.com',
  website: 'https://example.com',
  descriptor: 'Coffee & Jane',
  company: { country: 'DK', number: '12345678' },
  bank: { iban: 'DK5000400440116243' },
}

/** The account of a shop, with its transactions. It is paid out to one bank account, in one currency. */
export interface Merchant extends MerchantInput {
  readonly id: string
  /** Names the merchant in payment links and on the payment page. It is public and gives no access. */
  readonly key: string
  readonly createdMs: number
  /**
   * When the merchant was closed; null while it is open. A closed merchant accepts neither payments nor
   * captures, and stays readable.
   */
  readonly closedMs: number | null
}

export interface Balances {
  /**
   * The sum of the merchant's lines, in the funding currency: captures and won disputes, less refunds,
   * disputes, fees and payouts. The next payout takes all of it. Negative when the merchant owes money.
   */
  readonly available: Money
  /** The total that can still be captured or voided, for each currency in which it is not zero. */
  readonly pending: readonly Money[]
}

/** A program that uses the API. It has full access to the merchants that it is associated with. */
export interface App {
  readonly id: string
  readonly name: string | null
  readonly createdMs: number
}

/** One API key of an app. During a rotation an app has two keys. */
export interface AppKey {
  readonly appId: string
  /** The hash from `hashApiKey`. The key itself is not stored. */
  readonly hash: string
  readonly createdMs: number
  /** The time from which the key is rejected; null for a key that does not expire. */
  readonly expiresMs: number | null
}

export function isInForce(key: AppKey, nowMs: number): boolean {
  return key.expiresMs === null || nowMs < key.expiresMs
}

/** Returns the first text that is not empty, of the operation, the transaction or the merchant. */
export function chooseDescriptor(...candidates: readonly (string | null)[]): string {
  return candidates.find(candidate => candidate !== null && candidate !== '') ?? ''
}

/** A person who was invited to be a member of a merchant. A user can be a member of several merchants. */
export interface User {
  readonly id: string
  readonly email: string
  readonly createdMs: number
}
