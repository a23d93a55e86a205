import {
  booleanFlag,
  country,
  currency,
  descriptor,
  displayText,
  email,
  iban,
  webAddress,
} from '../input/fields.ts'
import {
  invalidValue,
  optionalField,
  type Reader,
  type RecordValues,
  reader,
  record,
  requiredField,
  withDefault,
} from '../input/record.ts'
import type { Money } from '../money/money.ts'

/** The longest name of an app or a merchant, and company number, in characters. */
export const maxNameCharacters = 100

const name = displayText(maxNameCharacters)

const account = record({ iban: optionalField(iban) })

/** Reads a bank; without an IBAN it is null. */
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
 * What a caller states of a merchant. From it follow the type, the parsers, the answers and the OpenAPI
 * document. A new field is a line here, one in `exampleMerchantInput`, one in `storage/tables/merchants.ts`,
 * a migration, and one in the Merchant of `crds/`.
 */
export const merchantFields = {
  name: optionalField(name),
  test: withDefault(booleanFlag, false),
  email: requiredField(email),
  website: requiredField(webAddress),
  /** The text on the payer's bank statement, if a transaction or a capture has no text of its own. */
  descriptor: requiredField(descriptor),
  company: requiredField(record({ country: requiredField(country), number: optionalField(name) })),
  bank: optionalField(bank),
  /** The funding currency, which is the currency of the balance. */
  currency: requiredField(currency),
}

export type MerchantInput = RecordValues<typeof merchantFields>

export const merchantFieldNames = Object.keys(merchantFields) as readonly (keyof MerchantInput)[]

/** The fields that a merchant can change. All others are fixed when it is created. */
export const mutableMerchantFields = [
  'name',
  'email',
  'descriptor',
] as const satisfies readonly (keyof MerchantInput)[]

export type MerchantUpdate = Partial<Pick<MerchantInput, (typeof mutableMerchantFields)[number]>>

/** The example in the documentation. */
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

/** An account that holds transactions and is paid out to one bank account, in one currency. */
export interface Merchant extends MerchantInput {
  readonly id: string
  /** Public: names the merchant in links and on the payment page, and opens nothing. */
  readonly key: string
  /** Milliseconds since the epoch. */
  readonly createdMs: number
  /** A closed merchant accepts nothing new; what it has stays readable. */
  readonly closedMs: number | null
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
  /** See `hashApiKey`. The key itself is not stored. */
  readonly hash: string
  readonly createdMs: number
  /** The time from which the key is rejected; null for a key that does not expire. */
  readonly expiresMs: number | null
}

export function isInForce(key: AppKey, nowMs: number): boolean {
  return key.expiresMs === null || nowMs < key.expiresMs
}

/**
 * Returns the first descriptor that is not empty: of the operation, of the transaction, or of the
 * merchant.
 */
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
