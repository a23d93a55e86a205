import { maxCustomBytes } from '../../domain/input/custom.ts'
import { maxEmailCharacters, maxUrlCharacters } from '../../domain/input/fields.ts'
import { maxNameCharacters, maxNotesCharacters } from '../../domain/input/request-bodies.ts'
import type { JsonObject } from '../../domain/json.ts'
import { lineKinds } from '../../domain/ledger/line.ts'
import { cardSchemes } from '../../domain/merchant/card.ts'
import { maxAmount } from '../../domain/money/money.ts'
import { maxShownTrail } from '../../domain/present.ts'
import { fieldErrorCodes, refusals } from '../../domain/refusals.ts'
import { disputeStatuses } from '../../domain/transaction/dispute.ts'
import { processingErrorCodes } from '../../domain/transaction/processing-errors.ts'
import { trailKinds } from '../../domain/transaction/trail.ts'
import { tdsResults } from '../../domain/transaction/transaction.ts'
import { eventTypes } from '../../operations/announce.ts'

/** JSON Schemas (2020-12) of requests and answers, by their names in the OpenAPI document. */
const id = { type: 'string', format: 'uuid' }
const date = { type: 'string', format: 'date-time' }
const flag = { type: 'boolean' }
const text = { type: 'string' }
const name = { type: 'string', minLength: 1, maxLength: maxNameCharacters }
const currency = { type: 'string', pattern: '^[A-Z]{3}$', description: 'ISO 4217' }
const country = { type: 'string', pattern: '^[A-Z]{2}$', description: 'ISO 3166 alpha-2' }
const descriptor = { type: 'string', pattern: '^[ -~]{0,22}$', description: 'On the payer’s bank statement' }
const email = { type: 'string', format: 'email', maxLength: maxEmailCharacters }
const website = { type: 'string', format: 'uri', maxLength: maxUrlCharacters }
const amount = {
  type: 'integer',
  minimum: 1,
  maximum: Number(maxAmount),
  description: 'In minor units of the currency',
}
const minorUnits = { type: 'integer', description: 'In minor units' }
const money = object({ currency, amount: minorUnits })
const custom = { type: 'object', description: `Any JSON, up to ${maxCustomBytes} bytes; given back as it is` }

function orNull(schema: JsonObject): JsonObject {
  return { anyOf: [schema, { type: 'null' }] }
}

/** An object with these fields and no others. Those whose names end with `?` may be missing. */
function object(fields: Readonly<Record<string, JsonObject>>): JsonObject {
  const names = Object.keys(fields)
  return {
    type: 'object',
    additionalProperties: false,
    required: names.filter(field => !field.endsWith('?')),
    properties: Object.fromEntries(names.map(field => [field.replace(/\?$/, ''), fields[field] ?? {}])),
  }
}

/** A reference to one of the schemas. */
export function ref(schema: string): JsonObject {
  return { $ref: `#/components/schemas/${schema}` }
}

/** `{transaction: {…}}`. */
export function wrapped(field: string, schema: JsonObject): JsonObject {
  return object({ [field]: schema })
}

const company = object({ country, number: orNull(name) })
const bank = object({ iban: text })
const card = {
  bin: { type: 'string', pattern: '^[0-9]{6}$', description: 'The first 6 digits of the card number' },
  last4: { type: 'string', pattern: '^[0-9]{4}$' },
  expiry: date,
  scheme: { enum: cardSchemes },
}

const webhookUrl = { ...website, description: 'https, on a public address' }
const webhookEvents = {
  type: 'array',
  items: { enum: eventTypes },
  maxItems: eventTypes.length,
  description: 'The types that are wanted; empty for all. In a form, separated by commas',
}
const webhook = {
  id,
  merchantId: id,
  created: date,
  url: website,
  events: { type: 'array', items: text },
  disabled: orNull(date),
}

const inputs = {
  AppInput: object({ 'name?': orNull(name) }),
  MerchantInput: object({
    'name?': orNull(name),
    currency: { ...currency, description: 'The funding currency: one of those that are configured' },
    'test?': { ...flag, default: false },
    email,
    website,
    descriptor,
    company: object({ country, 'number?': orNull(name) }),
    'bank?': orNull(object({ 'iban?': orNull(text) })),
  }),
  MerchantUpdate: object({
    'name?': orNull(name),
    'email?': orNull(email),
    'descriptor?': orNull(descriptor),
  }),
  Invitation: object({ email }),
  Association: object({ appId: id }),
  TransactionInput: {
    ...object({
      'transactionId?': { ...id, description: 'An earlier transaction; or cardId' },
      'cardId?': { ...id, description: 'A saved card; or transactionId' },
      'descriptor?': orNull(descriptor),
      currency,
      amount,
      'custom?': orNull(custom),
    }),
    oneOf: [{ required: ['transactionId'] }, { required: ['cardId'] }],
  },
  CaptureInput: object({
    amount,
    'currency?': orNull({ ...currency, description: 'A guard: must be the transaction’s' }),
    'descriptor?': orNull(descriptor),
  }),
  VoidInput: object({ amount, 'currency?': orNull(currency) }),
  WebhookInput: object({ url: webhookUrl, 'events?': orNull(webhookEvents) }),
  WebhookUpdate: object({
    'url?': orNull(webhookUrl),
    'events?': orNull(webhookEvents),
    'disabled?': orNull(flag),
  }),
  CardInput: object({
    transactionId: id,
    'notes?': orNull({ type: 'string', minLength: 1, maxLength: maxNotesCharacters }),
  }),
} satisfies Readonly<Record<string, JsonObject>>

const dispute = object({ id, 'won?': { const: true }, 'lost?': { const: true } })
const fee = object({ flat: minorUnits, rate: minorUnits, total: minorUnits })

const records = {
  App: object({ id, name: orNull(name) }),
  NewApp: object({
    id,
    name: orNull(name),
    key: { ...text, description: 'The API key; never shown again' },
  }),
  Merchant: object({
    id,
    key: { ...id, description: 'Public: names the merchant in links, and grants no access' },
    created: date,
    name: orNull(name),
    currency,
    test: flag,
    email,
    website,
    descriptor,
    company,
    bank: orNull(bank),
    closed: orNull(date),
  }),
  User: object({ id, email, created: date }),
  Card: object({ id, merchantId: id, created: date, ...card, notes: orNull(text) }),
  Fee: fee,
  TrailEntry: {
    ...object({
      id,
      kind: { enum: trailKinds },
      'capture?': { const: true },
      'refund?': { const: true },
      'void?': { const: true },
      'dispute?': dispute,
      created: date,
      amount: { ...minorUnits, description: 'In the transaction’s currency' },
      balance: { ...minorUnits, description: 'The effect on the merchant’s balance, in its currency' },
      fee: ref('Fee'),
      descriptor: text,
      'lineId?': id,
    }),
    oneOf: ['capture', 'refund', 'void', 'dispute'].map(kind => ({ required: [kind] })),
  },
  Transaction: object({
    id,
    merchantId: id,
    test: flag,
    created: date,
    currency,
    amount: minorUnits,
    descriptor: text,
    pendingAmount: { ...minorUnits, description: 'Can be captured or voided' },
    capturedAmount: { ...minorUnits, description: 'All that was captured; a refund does not lower it' },
    refundedAmount: minorUnits,
    voidedAmount: minorUnits,
    disputedAmount: { ...minorUnits, description: 'In disputes that run or were lost' },
    card: object(card),
    'custom?': custom,
    'reference?': text,
    'tds?': { enum: tdsResults, description: '3-D Secure' },
    recurring: flag,
    successful: flag,
    error: { anyOf: [{ const: false }, ref('ProcessingError')] },
    trail: {
      type: 'array',
      items: ref('TrailEntry'),
      maxItems: maxShownTrail,
      description: 'In the order of time. Of a longer trail the newest; all are at /transactions/{id}/trail',
    },
    trailLength: { type: 'integer', description: 'How many entries the whole trail has' },
  }),
  Line: object({
    id,
    merchantId: id,
    test: flag,
    created: date,
    balance: { ...minorUnits, description: 'The effect on the merchant’s balance, in its currency' },
    fee: minorUnits,
    kind: { enum: lineKinds },
    description: text,
    amount: object({ amount: minorUnits, currency }),
    'transactionId?': id,
    'capture?': { const: true },
    'refund?': { const: true },
  }),
  Fraud: object({
    id,
    merchantId: id,
    transactionId: id,
    created: date,
    'reported?': date,
    'reason?': { type: 'integer', minimum: 0, maximum: 8 },
  }),
  Balance: object({
    available: { ...money, description: 'The sum of the lines, in the funding currency; may be negative' },
    pending: { type: 'array', items: money, description: 'Authorised and neither captured nor voided' },
  }),
  Dispute: object({
    id,
    merchantId: id,
    transactionId: id,
    created: date,
    amount: minorUnits,
    currency,
    'excess?': { ...minorUnits, description: 'The part of the amount above what could be refunded' },
    status: { enum: disputeStatuses },
    reason: orNull(text),
    due: orNull(date),
    resolved: orNull(date),
  }),
  Webhook: object({ ...webhook, 'waiting?': object({ events: { type: 'integer' }, error: orNull(text) }) }),
  NewWebhook: object({
    ...webhook,
    secret: { ...text, description: 'The key that verifies signatures; never shown again' },
  }),
  Event: object({
    id,
    type: { enum: eventTypes },
    created: date,
    merchantId: id,
    data: {
      type: 'object',
      description:
        'The record under its name, as it was then, and the change of a trail: {transaction: {…}, change: {…}}',
    },
  }),
} satisfies Readonly<Record<string, JsonObject>>

const errors = {
  ProcessingError: object({
    code: { enum: processingErrorCodes },
    message: text,
    client: { ...text, description: 'The text for the payer' },
    merchant: { ...text, description: 'The text for the merchant' },
    retry: { ...flag, description: 'Whether the same payment can succeed later' },
  }),
  FieldErrors: {
    type: 'array',
    minItems: 1,
    items: object({ field: text, code: { enum: fieldErrorCodes }, message: text }),
  },
  Error: object({
    code: { enum: Object.keys(refusals) },
    message: text,
    'error?': ref('ProcessingError'),
    'requestId?': text,
  }),
} satisfies Readonly<Record<string, JsonObject>>

export const schemas = { ...inputs, ...records, ...errors } satisfies Readonly<Record<string, JsonObject>>
