import { isObject } from '@tollway/chassis/is-object.ts'
import {
  type MerchantInput,
  type MerchantUpdate,
  maxNameCharacters,
  merchantFields,
  mutableMerchantFields,
} from '../merchant.ts'
import { accept, type FieldError, type Result, rejectFields } from '../rejections.ts'
import type { AuthorisationInput } from '../transaction/authorise.ts'
import type { CaptureInput, VoidInput } from '../transaction/change.ts'
import { custom } from './custom.ts'
import {
  amount,
  currency,
  descriptor,
  displayText,
  email,
  fundingCurrency,
  id,
  maxUrlCharacters,
  textField,
  webAddress,
} from './fields.ts'
import {
  described,
  type Encoding,
  optionalField,
  optionalInUpdate,
  parseInput,
  type Reader,
  record,
  rejectValue,
  requiredField,
} from './record.ts'

const maxNotesCharacters = 1000
/** The maximum length of the reference and of the text of a payment link, in characters. */
export const maxLinkTextCharacters = 200

export interface AppInput {
  readonly name: string | null
}

export type TransactionSource = { readonly transactionId: string } | { readonly cardId: string }

export interface TransactionInput extends AuthorisationInput {
  readonly source: TransactionSource
}

export interface SaveCardInput {
  readonly transactionId: string
  readonly notes: string | null
}

export interface LinkInput {
  readonly key: string
  readonly currency: string | null
  /** Null if the payer enters the amount on the payment page, as at a point of sale. */
  readonly amount: bigint | null
  readonly reference: string | null
  readonly text: string | null
  readonly redirect: string | null
  readonly locale: Locale
}

export const locales = ['en', 'da'] as const
export type Locale = (typeof locales)[number]

const app = record({ name: optionalField(displayText(maxNameCharacters)) })

const mutableFields = Object.fromEntries(
  mutableMerchantFields.map(name => [name, optionalInUpdate<string>(merchantFields[name])]),
)

/** The fields that an update can remove with null, because a merchant may be without them. */
const removable: ReadonlySet<string> = new Set(
  mutableMerchantFields.filter(name => merchantFields[name].absent === null),
)
const immutable = new Set(['id', 'key', 'created', ...Object.keys(merchantFields)])
const mutableNames = new Intl.ListFormat('en-GB').format(mutableMerchantFields)

const merchantUpdate = record(mutableFields, {
  onUnknownField: place => {
    if (immutable.has(place.path)) {
      rejectValue(place, 'immutable', 'cannot change after the merchant was created')
    } else rejectValue(place, 'unknown', `unknown field; ${mutableNames} can be changed`)
  },
})

const member = record({ email: requiredField(email) })
const association = record({ appId: requiredField(id) })

const transaction = record({
  transactionId: optionalField(
    described(id, 'The id of an earlier transaction. Either transactionId or cardId is required'),
  ),
  cardId: optionalField(described(id, 'The id of a saved card. Either transactionId or cardId is required')),
  descriptor: optionalField(descriptor),
  currency: requiredField(currency),
  amount: requiredField(amount),
  custom: optionalField(custom),
})

const capture = record({
  amount: requiredField(amount),
  currency: optionalField(described(currency, 'A check: it must be the currency of the transaction')),
  descriptor: optionalField(descriptor),
})

const cancellation = record({ amount: requiredField(amount), currency: optionalField(currency) })

const card = record({
  transactionId: requiredField(id),
  notes: optionalField(displayText(maxNotesCharacters)),
})

const link = record(
  {
    key: requiredField(textField(64)),
    currency: optionalField(currency),
    amount: optionalField(amount),
    reference: optionalField(displayText(maxLinkTextCharacters)),
    text: optionalField(displayText(maxLinkTextCharacters)),
    redirect: optionalField(webAddress),
    locale: optionalField(textField(maxUrlCharacters)),
  },
  // Unknown parameters are allowed, because mail programs and others add some to links, for example to count
  // visits.
  { onUnknownField: () => {} },
)

const merchant = (fundingCurrencies: readonly string[]) =>
  record({ ...merchantFields, currency: requiredField(fundingCurrency(fundingCurrencies)) })

/** The JSON Schemas of the bodies, by their names in the OpenAPI document. */
export const bodySchemas = {
  AppInput: app.schema,
  MerchantInput: merchant([]).schema,
  MerchantUpdate: merchantUpdate.schema,
  Invitation: member.schema,
  Association: association.schema,
  TransactionInput: {
    ...transaction.schema,
    oneOf: [{ required: ['transactionId'] }, { required: ['cardId'] }],
  },
  CaptureInput: capture.schema,
  VoidInput: cancellation.schema,
  CardInput: card.schema,
}

/** Parses the body of POST /merchants. The currency must be one of `fundingCurrencies`. */
export function parseMerchant(
  body: unknown,
  encoding: Encoding,
  fundingCurrencies: readonly string[],
): Result<MerchantInput> {
  return parseInput(merchant(fundingCurrencies), body, encoding)
}

function parser<T>(read: Reader<T>): (body: unknown, encoding: Encoding) => Result<T> {
  return (body, encoding) => parseInput(read, body, encoding)
}

export const parseApp = parser<AppInput>(app)
export const parseMember = parser(member)
export const parseAssociation = parser(association)
export const parseCapture = parser<CaptureInput>(capture)
export const parseRefund = parseCapture
export const parseVoid = parser<VoidInput>(cancellation)
export const parseCard = parser<SaveCardInput>(card)

/** Parses the body of PUT /merchants/<id>. Null removes an optional field, and is ignored for others. */
export function parseMerchantUpdate(body: unknown, encoding: Encoding): Result<MerchantUpdate> {
  const parsed = parseInput(merchantUpdate, body, encoding)
  if (!parsed.ok) return parsed
  const isChange = ([name, value]: readonly [string, unknown]) =>
    value !== null || (removable.has(name) && isObject(body) && Object.hasOwn(body, name))
  return accept(Object.fromEntries(Object.entries(parsed.value).filter(isChange)))
}

/** Rejects a body unless it has exactly one of `transactionId` and `cardId`. */
export function parseTransaction(body: unknown, encoding: Encoding): Result<TransactionInput> {
  const parsed = parseInput(transaction, body, encoding)
  const faults = findSourceErrors(body)
  if (!parsed.ok) return rejectFields([...parsed.rejection.fields, ...faults])
  const { transactionId, cardId, ...input } = parsed.value
  if (transactionId !== null && cardId === null) return accept({ ...input, source: { transactionId } })
  if (cardId !== null && transactionId === null) return accept({ ...input, source: { cardId } })
  return rejectFields(faults)
}

function findSourceErrors(body: unknown): readonly FieldError[] {
  const isThere = (field: string) => isObject(body) && body[field] != null && body[field] !== ''
  if (isThere('transactionId') !== isThere('cardId')) return []
  if (isThere('cardId')) {
    const message = 'only one of transactionId and cardId is allowed'
    return [{ field: 'cardId', code: 'exclusive', message }]
  }
  const message = 'one of transactionId and cardId is required'
  return [{ field: 'transactionId', code: 'required', message }]
}

/** Parses the query of a payment link. Unknown parameters are ignored. */
export function parseLink(query: unknown): Result<LinkInput> {
  const parsed = parseInput(link, query, 'form')
  return parsed.ok ? accept({ ...parsed.value, locale: parseLocale(parsed.value.locale) }) : parsed
}

/** Returns the language of the pages: Danish for da, da_DK or da-DK, English for anything else. */
export function parseLocale(text: string | null): Locale {
  return text !== null && /^da(?:[_-]|$)/i.test(text) ? 'da' : 'en'
}
