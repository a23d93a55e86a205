import type { JsonObject } from '@tollway/chassis/json.ts'
import { hasCardNumber } from '../card.ts'
import { isId } from '../ids.ts'
import { isCurrency, maxAmount } from '../money/money.ts'
import {
  described,
  describeInput,
  type FieldContext,
  type InvalidInput,
  invalidValue,
  type Reader,
  reader,
  rejectValue,
} from './record.ts'

export const countryCodes: readonly string[] =
  `AD AE AF AG AI AL AM AO AQ AR AS AT AU AW AX AZ BA BB BD BE BF BG BH BI BJ BL BM BN BO BQ BR BS BT
   BV BW BY BZ CA CC CD CF CG CH CI CK CL CM CN CO CR CU CV CW CX CY CZ DE DJ DK DM DO DZ EC EE EG EH
   ER ES ET FI FJ FK FM FO FR GA GB GD GE GF GG GH GI GL GM GN GP GQ GR GS GT GU GW GY HK HM HN HR HT
   HU ID IE IL IM IN IO IQ IR IS IT JE JM JO JP KE KG KH KI KM KN KP KR KW KY KZ LA LB LC LI LK LR LS
   LT LU LV LY MA MC MD ME MF MG MH MK ML MM MN MO MP MQ MR MS MT MU MV MW MX MY MZ NA NC NE NF NG NI
   NL NO NP NR NU NZ OM PA PE PF PG PH PK PL PM PN PR PS PT PW PY QA RE RO RS RU RW SA SB SC SD SE SG
   SH SI SJ SK SL SM SN SO SR SS ST SV SX SY SZ TC TD TF TG TH TJ TK TL TM TN TO TR TT TV TW TZ UA UG
   UM US UY UZ VA VC VE VG VI VN VU WF WS YE YT ZA ZM ZW`.split(/\s+/)

const countries: ReadonlySet<string> = new Set(countryCodes)

export function isCountry(code: string): boolean {
  return countries.has(code)
}

const pattern = /^[A-Z]{2}[0-9]{2}[A-Z0-9]{11,30}$/

export function normaliseIban(text: string): string {
  return text.replaceAll(' ', '').toUpperCase()
}

/** Verifies the form of ISO 13616 and the check digits (ISO 7064, mod 97-10) of a normalised IBAN. */
export function isIban(iban: string): boolean {
  if (!pattern.test(iban)) return false
  const rearranged = iban.slice(4) + iban.slice(0, 4)
  // A letter stands for two digits, A for 10 to Z for 35.
  const digits = [...rearranged].map(character => Number.parseInt(character, 36)).join('')
  return BigInt(digits) % 97n === 1n
}

/** Reads a list of `min` to `max` elements. Reports the errors of all elements, not only the first. */
export function list<T extends object | string>(
  read: Reader<T>,
  max: number,
  min: number = 0,
): Reader<readonly T[]> {
  const schema = { type: 'array', items: read.schema, minItems: min, maxItems: max }
  return reader(schema, (value, place) => {
    if (!Array.isArray(value)) return rejectValue(place, 'type', `${describeInput(value)} is not a list`)
    if (value.length > max)
      return rejectValue(place, 'too_many', `has ${value.length} elements; at most ${max} are allowed`)
    if (value.length < min)
      return rejectValue(place, 'required', `has ${value.length} elements; at least ${min} are required`)
    const items = value.map((item, index) => read(item, { ...place, path: `${place.path}.${index}` }))
    const good = items.filter((item): item is T => item !== invalidValue)
    return good.length < items.length ? invalidValue : good
  })
}

export const maxEmailCharacters = 254
export const maxUrlCharacters = 2048

/**
 * Matches control characters and line separators, which could harm a terminal, a mail header or a database.
 */
const controls = /[\p{Cc}\u2028\u2029]/u

/**
 * Accepts the e-mail addresses that HTML accepts (input type email), if the domain has a dot. The part before
 * the `@` has at most 64 characters, and each label of the domain at most 63.
 */
const domainLabel = '[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?'
const emailPattern = new RegExp(
  String.raw`^[\w.!#$%&'*+/=?^{|}~-]{1,64}@(?:${domainLabel}\.)+(?=[a-z])${domainLabel}$`,
  'i',
)

const wholeNumber = /^(?:0|[1-9][0-9]{0,15})$/

/** Reads a text of 1 to `maxCharacters` characters, without control characters. */
export function textField(maxCharacters: number): Reader<string> {
  return reader({ type: 'string', minLength: 1, maxLength: maxCharacters }, (value, place) => {
    if (typeof value !== 'string')
      return rejectValue(place, 'type', `${describeInput(value)} is not a string`)
    if (value.length > maxCharacters) {
      return rejectValue(
        place,
        'too_long',
        `has ${value.length} characters; at most ${maxCharacters} are allowed`,
      )
    }
    if (value === '') return rejectValue(place, 'too_small', 'is empty; leave the field out, or send null')
    return isStorable(value)
      ? value
      : rejectValue(place, 'format', 'has control characters or broken Unicode')
  })
}

/** Reads text for people. Rejects text that could contain a card number. */
export function displayText(maxCharacters: number): Reader<string> {
  const read = textField(maxCharacters)
  return reader(read.schema, (value, place) => {
    const found = read(value, place)
    return found === invalidValue ? invalidValue : withoutCardNumber(found, place)
  })
}

export function withoutCardNumber(value: string, place: FieldContext): string | InvalidInput {
  return hasCardNumber(value) ? rejectCardNumber(place) : value
}

export function rejectCardNumber(place: FieldContext): InvalidInput {
  return rejectValue(place, 'card_number', 'could contain a card number, which must not be stored')
}

/** Reports whether text has no control characters and no unpaired surrogates. */
export function isStorable(value: string): boolean {
  return value.isWellFormed() && !controls.test(value)
}

/** Reads text for which `matches` returns true. Other text is reported as "<text> is <expected>". */
function matching(
  schema: JsonObject,
  maxCharacters: number,
  matches: (value: string) => boolean,
  expected: string,
): Reader<string> {
  const read = textField(maxCharacters)
  return reader({ type: 'string', ...schema }, (value, place) => {
    const found = read(value, place)
    if (found === invalidValue || matches(found)) return found
    return rejectValue(place, 'format', `${describeInput(found)} is ${expected}`)
  })
}

/** Reads a whole number from `min` to `max`. In JSON it is a number, in a form text of digits. */
export function integerBetween(min: bigint, max: bigint): Reader<bigint> {
  const schema = { type: 'integer', minimum: Number(min), maximum: Number(max) }
  return reader(schema, (value, place) => {
    const found = place.encoding === 'form' ? fromDigits(value) : fromNumber(value)
    if (found === undefined)
      return rejectValue(place, 'type', `${describeInput(value)} is not a whole number`)
    if (found < min) return rejectValue(place, 'too_small', `${describeInput(value)} is below ${min}`)
    return found > max ? rejectValue(place, 'too_large', `${describeInput(value)} is above ${max}`) : found
  })
}

function fromDigits(value: unknown): bigint | undefined {
  return typeof value === 'string' && wholeNumber.test(value) ? BigInt(value) : undefined
}

function fromNumber(value: unknown): bigint | undefined {
  return typeof value === 'number' && Number.isInteger(value) ? BigInt(value) : undefined
}

export const amount = described(integerBetween(1n, maxAmount), 'The amount in minor units of the currency')

const booleanWords: ReadonlyMap<unknown, boolean> = new Map([
  ...['yes', 'y', 'true', '1'].map(word => [word, true] as const),
  ...['no', 'n', 'false', '0'].map(word => [word, false] as const),
])

/** Reads true or false. A form can also have yes or no, y or n, 1 or 0. */
export const booleanFlag: Reader<boolean> = reader({ type: 'boolean' }, (value, place) => {
  const found = place.encoding === 'form' ? booleanWords.get(value) : value
  if (typeof found === 'boolean') return found
  const expected = place.encoding === 'form' ? 'neither yes nor no' : 'neither true nor false'
  return rejectValue(place, 'type', `${describeInput(value)} is ${expected}`)
})

export const currency = matching(
  { pattern: '^[A-Z]{3}$', description: 'The ISO 4217 code of the currency' },
  3,
  isCurrency,
  'not a currency of ISO 4217, such as DKK',
)

export function fundingCurrency(codes: readonly string[]): Reader<string> {
  const description = 'The funding currency, one of the configured currencies'
  return reader({ ...currency.schema, description }, (value, place) => {
    const found = currency(value, place)
    if (found === invalidValue || codes.includes(found)) return found
    return rejectValue(
      place,
      'unsupported',
      `${found} is not a funding currency; these are ${codes.join(', ')}`,
    )
  })
}

export const country = matching(
  { pattern: '^[A-Z]{2}$', description: 'The ISO 3166 alpha-2 code of the country' },
  2,
  isCountry,
  'not a country of ISO 3166, such as DK',
)

export const email = matching(
  { format: 'email', maxLength: maxEmailCharacters },
  maxEmailCharacters,
  value => emailPattern.test(value),
  'not an e-mail address such as john@example.com',
)

export const id = matching({ format: 'uuid' }, 36, isId, 'not an id of this service')

/** The text on the payer's bank statement, with the limits of the public API. It may be empty. */
const descriptorPattern = /^[\x20-\x7E]{0,22}$/

const descriptorSchema = {
  type: 'string',
  pattern: '^[ -~]{0,22}$',
  description: 'The text on the payer’s bank statement',
}

export const descriptor: Reader<string> = reader(descriptorSchema, (value, place) => {
  if (typeof value !== 'string') return rejectValue(place, 'type', `${describeInput(value)} is not a string`)
  if (value.length > 22) {
    return rejectValue(place, 'too_long', `has ${value.length} characters; at most 22 are allowed`)
  }
  if (descriptorPattern.test(value)) return withoutCardNumber(value, place)
  return rejectValue(place, 'format', `${describeInput(value)} has characters other than printable ASCII`)
})

/** Reads an http or https URL without user name and password, and returns it unchanged. */
export const webAddress = matching(
  { format: 'uri', maxLength: maxUrlCharacters },
  maxUrlCharacters,
  isWebAddress,
  'not a URL such as https://example.com',
)

function isWebAddress(value: string): boolean {
  const url = URL.parse(value)
  if (url === null || !/^https?:\/\//i.test(value)) return false
  return url.hostname !== '' && url.username === '' && url.password === ''
}

const ibanText = textField(64)

export const iban: Reader<string> = reader({ type: 'string' }, (value, place) => {
  const found = ibanText(value, place)
  if (found === invalidValue) return invalidValue
  const normalised = normaliseIban(found)
  // The message does not repeat the value, which may be an account number with one wrong digit.
  return isIban(normalised)
    ? normalised
    : rejectValue(place, 'format', 'is not an IBAN, or has a wrong digit')
})

export function enumeration<T extends string>(
  values: readonly T[],
  code: 'format' | 'unsupported' = 'unsupported',
): Reader<T> {
  return reader({ enum: values }, (value, place) => {
    const found = values.find(one => one === value)
    return found ?? rejectValue(place, code, `${describeInput(value)} is not one of ${values.join(', ')}`)
  })
}
